"""Cache of recordings, and of what they are priced with."""

from collections.abc import Callable
from copy import copy
from importlib import import_module
from typing import Any, Self, TypeVar

from service.estimator.memory.allocator.caching_allocator import CancelCheck
from service.estimator.memory.allocator.replay_cache import ReplayCache
from service.estimator.model.architecture import Architecture
from service.estimator.model.tensor_parallel.split_plan import SplitPlan
from service.estimator.passes.config import PeakCandidates, ServingPass, TrainingPass
from service.estimator.passes.stored_recordings import (
    RecordingStore,
    load_training,
    share_recordings,
)
from service.estimator.rules.checks import Checks
from service.estimator.rules.grammar.rule import RuleTable
from service.estimator.values.memo import Memo, check_making

P = TypeVar("P", TrainingPass, ServingPass)

MAX_PASSES = 2048
"""Values of each kind, a dozen kilobytes each: a search to which no number of GPUs is enough makes
1,600 prices of 300 recordings. Timers of steps are larger, and fewer (``speed/throughput.py``).
"""


class PassCache:
    """Recordings of passes, and the memos of backends.

    There is one recording per model and kind of pass.
    """

    def __init__(self, capacity: int = MAX_PASSES, *, store: RecordingStore | None = None) -> None:
        """Keep at most ``capacity`` values of each kind.

        ``store`` keeps recordings of training.
        """
        self.capacity, self.store = capacity, store
        self.replays = ReplayCache(store)
        self._passes: Memo[PeakCandidates] = Memo(capacity)
        self._shared = share_recordings(store, capacity=capacity)
        self._shards: Memo[Architecture] = Memo(capacity)
        self._models: Memo[tuple[Architecture, object]] = Memo(capacity)
        self._model_keys: Memo[object] = Memo(capacity)
        self._checks: Memo[Checks] = Memo(capacity)
        self._memos: dict[str, Memo[Any]] = {}

    def clear(self) -> None:
        """Keep nothing any more; what is asked next is made anew."""
        for memo in self.list_memos().values():
            memo.clear()

    def list_memos(self) -> dict[str, Memo[Any]]:
        """Return all that is kept, by kind; any thread may ask."""
        return {
            "passes": self._passes,
            **self._shared.list_memos("passes"),
            "shards": self._shards,
            "models": self._models,
            "model keys": self._model_keys,
            "checks": self._checks,
            **self.replays.list_memos(),
            **self._memos,
        }

    def with_cancellation(self, check: CancelCheck) -> Self:
        """Return the same cache with replays that can be cancelled.

        A replay ends, with the exception that ``check`` raises, once nobody waits for its question
        any more.
        """
        shared = copy(self)
        shared.replays = self.replays.with_cancellation(check)
        return shared

    def get_memo(self, name: str, capacity: int | None = None) -> Memo[Any]:
        """Return a memo of a backend's own."""
        memo = self._memos.get(name)
        if memo is not None:
            return memo
        return self._memos.setdefault(name, Memo(capacity or self.capacity))

    def get_model_key(self, model: Architecture) -> object:
        """Return a cheaply hashed key of a model.

        Equal models have the same key.
        """
        entry = self._models.get(id(model))
        if entry is not None and entry[0] is model:
            return entry[1]
        identity = (model.spec, model.quantization, model.gguf)
        key = self._model_keys.get(identity)
        if key is None:
            key = self._model_keys.store(identity, object())
        self._models.store(id(model), (model, key))
        return key

    def get_checks(self, table: RuleTable, model: Architecture) -> Checks:
        """Return the checks of a table for a model, made once."""
        key = (table, self.get_model_key(model))
        checks = self._checks.get(key)
        return checks if checks is not None else self._checks.store(key, Checks(table, model))

    def get_recording(
        self, model: Architecture, config: P, record: Callable[[Architecture, P], PeakCandidates]
    ) -> PeakCandidates:
        """Return the recording of a pass, made once."""
        key = (model.spec, config)
        return self._passes.get_or_make(key, lambda: record(model, config))

    def get_training(self, model: Architecture, config: TrainingPass) -> PeakCandidates:
        """Return the recording of a training pass, made once.

        Those that differ in padding alone share one.
        """
        return self.get_recording(model, config, self._load_training)

    def _load_training(self, model: Architecture, config: TrainingPass) -> PeakCandidates:
        return load_training(model, config, self.store, self._shared)

    def get_shard(self, model: Architecture, tensor_parallel: int, plan: SplitPlan) -> Architecture:
        """Return one tensor-parallel rank's shard of a model, made once."""
        if tensor_parallel == 1:
            return model
        key = (self.get_model_key(model), tensor_parallel, plan)
        return self._shards.get_or_make(key, lambda: _split(model, tensor_parallel, plan))


def _split(model: Architecture, tensor_parallel: int, plan: SplitPlan) -> Architecture:
    check_making()
    # Modules of every kind are loaded to split a model, for more than one rank alone.
    local = import_module("service.estimator.model.tensor_parallel.local")
    shard: Architecture = local.local_architecture(model, tensor_parallel, plan)
    return shard
