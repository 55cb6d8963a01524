"""Refusals of rules, which hold for more than one configuration.

A rule is a function of the fields that it reads: whatever has the same values in them breaks it.
"""

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import NamedTuple

from service.estimator.values.errors import EstimatorError
from service.estimator.values.layout import Layout
from service.estimator.values.workload import TrainWorkload, Workload
from service.planner.fit.evaluator import Config

_MODEL, _VARIED = "model.", ("workload.", "layout.")
_OF_BATCHES = frozenset(
    {
        "workload.activation_checkpointing",
        "workload.micro_batch_size",
        "workload.gradient_accumulation_steps",
    }
)
"""What the batches of one layout differ in."""
_RANKS = "layout.data_parallel"


class _Fields(NamedTuple):
    workload: Workload
    layout: Layout


class _Refused(NamedTuple):
    """Refused values of the fields that decide, and what else they decide."""

    read: Callable[[object], object]
    values: set[object]
    of_all_batches: bool
    of_all_ranks: bool


class KnownRefusals:
    """Refusals of one question to train, by strategy.

    What a strategy's workloads differ in is in fields that a search varies, so that formats and
    kernels, which a GPU may choose, are the same in all of them.
    """

    def __init__(self, workload: Workload) -> None:
        """Start without any; of a server, whose formats vary, none is recorded."""
        self._is_known = isinstance(workload, TrainWorkload)
        self._by_strategy: dict[str, dict[frozenset[str], _Refused]] = {}

    def record(self, strategy: str, config: Config, refusal: EstimatorError) -> None:
        """Record a refusal, where the fields that decide it are known."""
        paths = None if refusal.decided_by is None else _select_varied(refusal.decided_by)
        if not self._is_known or paths is None:
            return
        by_fields = self._by_strategy.setdefault(strategy, {})
        refused = by_fields.get(paths)
        if refused is None:
            read = attrgetter(*sorted(paths), "__class__")
            is_wide = not paths & _OF_BATCHES
            refused = by_fields[paths] = _Refused(read, set(), is_wide, _RANKS not in paths)
        refused.values.add(refused.read(_Fields(*config)))

    def covers(self, strategy: str, config: Config) -> bool:
        """Return whether a configuration breaks a rule as another did."""
        return any(True for _ in self._iter_refused(strategy, config))

    def covers_batches(self, strategy: str, config: Config) -> bool:
        """Return whether every batch of a layout breaks such a rule."""
        return any(refused.of_all_batches for refused in self._iter_refused(strategy, config))

    def covers_ranks(self, strategy: str, config: Config) -> bool:
        """Return whether a configuration breaks one on any ranks."""
        return any(refused.of_all_ranks for refused in self._iter_refused(strategy, config))

    def _iter_refused(self, strategy: str, config: Config) -> Iterator[_Refused]:
        by_fields = self._by_strategy.get(strategy)
        if by_fields:
            fields = _Fields(*config)
            for refused in by_fields.values():
                if refused.read(fields) in refused.values:
                    yield refused


def _select_varied(paths: Iterable[str]) -> frozenset[str] | None:
    """Return the paths of question and layout.

    None where some are of neither, nor of the model.
    """
    varied = frozenset(path for path in paths if not path.startswith(_MODEL))
    return varied if all(path.startswith(_VARIED) for path in varied) else None
