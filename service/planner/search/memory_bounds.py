"""Memory bounds of layouts and batches, by arithmetic alone.

They come before any estimate, and each is worked out once.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from service.planner.fit.evaluator import Evaluator
from service.planner.search.bounds import compute_state_bytes, count_activation_ranks
from service.planner.search.failed_shards import MANY_GPUS
from service.planner.search.layout_options import Batch, LayoutOption
from service.planner.search.layouts import SearchSpace
from service.planner.search.splits import Split
from service.planner.search.strategies import list_offloads


class MemoryBounds:
    """Memory bounds of one question on one kind of GPU.

    They select the layouts whose least bytes have room; ``pruned`` counts those that have none.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        space: SearchSpace,
        pruned: Counter[str],
        *,
        counts_all: bool = True,
    ) -> None:
        """Compute the least bytes of the model's states.

        Unless it ``counts_all``, layouts of splits without room are not even listed.
        """
        self._space, self._usable, self._pruned = space, evaluator.device.usable_bytes, pruned
        self.num_considered = 0
        self._counts_all = counts_all
        self._offloads = list_offloads(
            space.question, has_nvme=space.base_layout.nvme_bytes is not None
        )
        self._ruled_out: dict[Split, int] = {}
        self._least_states: dict[tuple[int, int, int], int] = {}
        self._states = compute_state_bytes(evaluator.architecture, space.question.workload)
        self._before_gradients = replace(self._states, gradients=0)
        self._feasible: dict[int, tuple[LayoutOption, ...]] = {}
        self._needs: dict[LayoutOption, int] = {}
        self._fitting: dict[LayoutOption, tuple[Batch, ...]] = {}

    def list_feasible(self, num_gpus: int) -> tuple[LayoutOption, ...]:
        """Return the options whose states alone fit.

        Those that need least come first.
        """
        feasible = self._feasible.get(num_gpus)
        if feasible is None:
            options = (
                self._space.list_options(num_gpus)
                if self._counts_all
                else self._iter_likely_options(num_gpus)
            )
            feasible = self._feasible[num_gpus] = self.filter_by_states(options)
        return feasible

    def rule_out(self, split: Split, num_gpus: int) -> None:
        """Leave out a split on up to so many GPUs.

        Its layouts of one rank stay.
        """
        self._ruled_out[split] = max(num_gpus, self._ruled_out.get(split, 0))

    def may_have_room(self, split: Split, num_gpus: int) -> bool:
        """Return whether the states of some layout of a split may fit.

        Those of the highest stage that its strategy has, wherever they may be offloaded to.
        """
        layout, (tensor, pipeline, context, expert) = self._space.base_layout, split.degrees
        is_open = self._space.question.is_open("zero_stage")
        stage = max(split.strategy.stages) if is_open else layout.zero_stage
        shards = layout.shard_size or num_gpus // split.num_ranks * context
        key = stage, tensor * pipeline * expert, shards
        num_bytes = self._least_states.get(key)
        if num_bytes is None:
            num_bytes = self._least_states[key] = min(
                self._states.compute_shared_bytes(*key[1:], stage=stage, offload=offload)
                for offload in self._offloads
            )
        return num_bytes <= self._usable

    def _iter_likely_options(self, num_gpus: int) -> Iterator[LayoutOption]:
        for split in self._space.splits.listed:
            if (
                num_gpus % split.num_ranks == 0
                and not self._is_ruled_out(split, num_gpus)
                and self.may_have_room(split, num_gpus)
            ):
                yield from self._space.list_split_options(split, num_gpus)

    def _is_ruled_out(self, split: Split, num_gpus: int) -> bool:
        return max(split.num_ranks + 1, MANY_GPUS) <= num_gpus <= self._ruled_out.get(split, 0)

    def filter_by_states(self, options: Iterable[LayoutOption]) -> tuple[LayoutOption, ...]:
        """Return those of some options whose states fit.

        Those that need least come first.
        """
        feasible = []
        for option in options:
            needs = self._needs.get(option)
            if needs is None:
                needs = self._needs[option] = self._states.compute_rank_bytes(option)
                layouts = len(self._space.list_batches(option))
                self.num_considered += layouts
                self._pruned["states_alone"] += layouts * (needs > self._usable)
            if needs <= self._usable:
                feasible.append((needs, option))
        feasible.sort(key=lambda pair: (pair[0], -pair[1].layout.context_parallel))
        return tuple(option for _, option in feasible)

    def compute_shortfall(self, option: LayoutOption) -> int:
        """Return the shortfall of an option's states in bytes.

        The option was looked at before; less than 0 is room.
        """
        return self._needs[option] - self._usable

    def compute_backward_shortfall(self, option: LayoutOption) -> int:
        """Return a lower bound of an option's shortfall in backward.

        It counts the states and what backward needs of the smallest batch.
        """
        layout, listings = option.layout, self._space.listings
        split = count_activation_ranks(self._space.model, layout)
        needed = int(listings.get_min_need(self._space.list_batches(option)) / split)
        return self._before_gradients.compute_rank_bytes(option) + needed - self._usable

    def list_fitting_batches(self, option: LayoutOption) -> tuple[Batch, ...]:
        """Return the batches whose backward fits beside the states.

        They are worked out once; gradients come later.
        """
        fitting = self._fitting.get(option)
        if fitting is None:
            batches = self._space.list_batches(option)
            fitting = self._fitting[option] = self._filter_batches(option, batches)
            self._pruned["activations_alone"] += len(batches) - len(fitting)
        return fitting

    def _filter_batches(
        self, option: LayoutOption, batches: tuple[Batch, ...]
    ) -> tuple[Batch, ...]:
        layout = option.layout
        split = count_activation_ranks(self._space.model, layout)
        available = (self._usable - self._before_gradients.compute_rank_bytes(option)) * split
        return self._space.listings.select_within(batches, available)
