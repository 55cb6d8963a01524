"""The traced cases, as values; ``tests/data/truth/README.md`` says where they come from."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from service.catalog.models import load_config, resolve_model
from service.estimator.cache import PlanCache
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config

TRUTH = Path(__file__).resolve().parents[1] / "data" / "truth"
Options = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """Live bytes of one phase of the steady step; ``op`` is the operation that ran at its peak."""

    start: int
    peak: int
    end: int
    op: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCase:
    """One traced optimizer step, of a whole model or of one rank; bytes are sums of live storages,
    unrounded.

    ``allocated_bytes`` is the same peak in the allocator's blocks of 512 bytes, over both steps
    that were traced.
    """

    id: str
    model: str
    options: Options
    trained: int | None
    phases: Mapping[str, Phase]
    steady_peak_bytes: int
    steady_peak_phase: str
    steady_breakdown: Mapping[str, int] = field(repr=False)
    allocated_bytes: int
    reserved_bytes: int
    reserved_expandable_bytes: int

    @property
    def held_input_bytes(self) -> int:
        """Bytes of the last input of the step before, of which the tracer's loop over exact inputs
        still had the name.
        """
        inputs: Mapping[str, Any] = self.options.get("inputs") or {}
        if not inputs:
            return 0
        floating = 2 if self.options.get("precision") in {"bf16", "master_bf16"} else 4
        last = list(inputs.values())[-1]
        bytes_per_element: int = {"int64": 8, "model": floating}[last["dtype"]]
        shape: list[int] = last["shape"]
        return bytes_per_element * prod(shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingCase:
    """One traced prefill and decode; the cache is what its objects hold, right after prefill and
    after decode.
    """

    id: str
    model: str
    options: Options
    load_bytes: int
    prefill_bytes: int
    decode_bytes: int
    prefill_cache_bytes: int
    decode_cache_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterCase:
    """Parameters of a model, counted on the built model."""

    model: str
    total: int
    active: int
    embedding: int | None
    by_module: Mapping[str, int]
    num_tensors: int


def training_cases() -> list[StepCase]:
    """Return the traced training steps of whole models."""
    return [_step(row) for row in _rows("training")]


def make_traced_plans() -> PlanCache:
    """Return a cache for what was traced on a CPU, whose allocations are on one stream."""
    plans = PlanCache()
    plans.replays.single_stream = True
    return plans


def rank_cases() -> list[StepCase]:
    """Return the traced steps of one rank of a sharded job."""
    return [_step(row) for row in _rows("ranks")]


def serving_cases() -> list[ServingCase]:
    """Return the traced serving runs."""
    return [ServingCase(**row) for row in _rows("serving")]


def parameter_cases() -> list[ParameterCase]:
    """Return the counted models."""
    return [ParameterCase(**row) for row in _rows("parameters")]


def architecture_of(case: StepCase | ServingCase | ParameterCase) -> Architecture:
    """Return the case's model, cut to the layers that were traced; raise EstimatorError where it
    cannot be read.
    """
    model = architecture_from_config(load_config(resolve_model(case.model)))
    layers = None if isinstance(case, ParameterCase) else case.options.get("layers")
    return model if layers is None else model.with_layers(layers)


def _rows(name: str) -> Iterator[dict[str, Any]]:
    for line in (TRUTH / f"{name}.jsonl").read_text().splitlines():
        yield json.loads(line)


def _step(row: dict[str, Any]) -> StepCase:
    return StepCase(
        **row | {"phases": {name: Phase(**phase) for name, phase in row["phases"].items()}}
    )
