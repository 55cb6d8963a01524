"""Search for the configuration that comes nearest where none is enough.

It takes as few estimates as tell it.
"""

from collections.abc import Callable, Iterable, Sequence

from service.estimator.values.workload import TrainWorkload
from service.planner.search.layout_options import Batch, LayoutOption, get_shard_group
from service.planner.search.layouts import SearchSpace
from service.planner.search.memory_bounds import MemoryBounds
from service.planner.search.tried_batches import TriedBatch

Miss = tuple[LayoutOption, Batch]


class NearestMiss:
    """Search for the nearest miss, from the largest GPU count down.

    It asks what the smallest batches of layouts lack.
    """

    def __init__(
        self,
        space: SearchSpace,
        memory_bounds: MemoryBounds,
        try_smallest: Callable[[LayoutOption], TriedBatch],
    ) -> None:
        """Start without results.

        ``try_smallest`` estimates the batch of an option that needs least.
        """
        self._space, self._memory_bounds, self._try_smallest = space, memory_bounds, try_smallest
        self._trains = isinstance(space.question.workload, TrainWorkload)
        self._missing_by_key: dict[object, tuple[int, int]] = {}

    def find_nearest(self, num_gpus: int, *, of_all: bool) -> Miss | None:
        """Return the configuration that lacks least on so many GPUs.

        None where nothing of it can run.

        Where states alone, or with what backward needs, have no room, the one with the least stands
        for all unless the nearest ``of_all`` is asked.
        """
        bounded = self._memory_bounds.list_feasible(num_gpus)
        if not bounded:
            options = sorted(
                self._space.list_options(num_gpus), key=self._memory_bounds.compute_shortfall
            )
            return self._find_in_order(options) if of_all else self._find_first(options)
        if not of_all and not any(map(self._memory_bounds.list_fitting_batches, bounded)):
            return self._find_first(
                sorted(bounded, key=self._memory_bounds.compute_backward_shortfall)
            )
        return self._find_among_all(bounded)

    def _find_first(self, options: Iterable[LayoutOption]) -> Miss | None:
        tried = ((option, self._try_smallest(option)) for option in options)
        return next(
            ((option, trial.batch) for option, trial in tried if trial.estimate is not None), None
        )

    def _find_in_order(self, options: Iterable[LayoutOption]) -> Miss | None:
        """Return the nearest of options, ordered by their shortfall.

        What their states lack is a lower bound.
        """
        nearest: tuple[int, LayoutOption, Batch] | None = None
        for option in options:
            if nearest is not None and self._memory_bounds.compute_shortfall(option) >= nearest[0]:
                break
            trial = self._try_smallest(option)
            if trial.estimate is not None and (nearest is None or trial.missing_bytes < nearest[0]):
                nearest = trial.missing_bytes, option, trial.batch
        return None if nearest is None else nearest[1:]

    def _find_among_all(self, options: Sequence[LayoutOption]) -> Miss | None:
        """Return the nearest of options, the first of several.

        None is estimated that lacks more than another on more shards.
        """
        ranked = sorted(
            (self._get_lower_bound(option), index) for index, option in enumerate(options)
        )
        nearest: tuple[int, int, Batch] | None = None
        for lacks, index in ranked:
            if nearest is not None and lacks > nearest[0]:
                break
            option, trial = options[index], self._try_smallest(options[index])
            if trial.estimate is None:
                continue
            self._missing_by_key[get_shard_group(option, trial.batch)] = (
                option.layout.shards,
                trial.missing_bytes,
            )
            if nearest is None or (trial.missing_bytes, index) < nearest[:2]:
                nearest = trial.missing_bytes, index, trial.batch
        return None if nearest is None else (options[nearest[1]], nearest[2])

    def _get_lower_bound(self, option: LayoutOption) -> int:
        """Return a lower bound of an option's shortfall.

        It is what was missing with as many shards of its states, or more.
        """
        if not self._trains:
            return 0
        shards, missing = self._missing_by_key.get(
            get_shard_group(option, self._space.list_batches(option)[0]), (0, 0)
        )
        return missing if shards >= option.layout.shards else 0
