"""One type's recording held against passes that did not make it."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from service.estimator.model.families.registry import architecture_from_config
from service.estimator.model.recorded.architecture import build_recorded
from service.estimator.values.errors import NotModelledError
from service.probing.refusal import Refusal
from tests.accuracy.recorded.configs import make_config
from worker.probes.architecture.check import compute_peak, trace_peak
from worker.probes.architecture.listening.listen import Extent, make_fake_model
from worker.probes.architecture.listening.variants import VARIANTS
from worker.probes.architecture.record import record_model
from worker.probes.models.model_class import build_any_model, build_config

VARIANT = VARIANTS["half"]
EXTENT = Extent(batch=7, length=384)
"""Sequences and tokens of the pass that is compared: no recording runs it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How one type's recording compares; ``reason`` where there is no comparison."""

    model_type: str
    task: str
    recorded: int | None = None
    traced: int | None = None
    written: int | None = None
    parameters: tuple[int, int] | None = None
    seconds: float = 0.0
    reason: str | None = None

    @property
    def difference(self) -> float:
        """Return how far the recording is off, as a part of the traced bytes."""
        if self.recorded is None or not self.traced:
            return 0.0
        return self.recorded / self.traced - 1


def score(model_type: str, task: str) -> Score:
    """Record a type and compare it."""
    begin = time.monotonic()
    try:
        config = make_config(model_type)
        recorded = record_model(config, {"half": VARIANT})
        seconds = time.monotonic() - begin
        architecture = build_recorded(recorded)
        peak = compute_peak(architecture, VARIANT, EXTENT)
    except (Refusal, NotModelledError) as error:
        return Score(
            model_type=model_type,
            task=task,
            reason=str(error),
            seconds=time.monotonic() - begin,
        )
    written = _compute_written(config) if task == "written" else None
    return Score(
        model_type=model_type,
        task=task,
        recorded=peak,
        traced=_trace(config),
        written=written,
        parameters=(architecture.counts.total, count_parameters(config)),
        seconds=seconds,
    )


def _compute_written(config: Mapping[str, Any]) -> int:
    model = architecture_from_config(config)
    windows = [window for window in model.masks if window is not None]
    return compute_peak(
        model,
        VARIANT,
        EXTENT,
        window_reached=bool(windows) and min(windows) <= EXTENT.length,
    )


def _trace(config: Mapping[str, Any]) -> int:
    hf_config = build_config(config)
    hf_config.use_cache = hf_config.get_text_config().use_cache = False
    with make_fake_model(config, hf_config, VARIANT) as fake:
        return trace_peak(fake, VARIANT, EXTENT)


def count_parameters(config: Mapping[str, Any]) -> int:
    """Return the model's parameters, counted on the meta device."""
    with torch.device("meta"):
        model = build_any_model(config, build_config(config), dtype=torch.float32, attention="sdpa")
    return sum(weight.numel() for weight in model.parameters())
