"""Recorded runs on real GPUs, and what was read of each."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import Any

from service.estimator.cache import PlanCache
from tests.accuracy.cases import TRUTH
from tests.gpu.sweep.case import Case, Measurement, read_lines

GPU = TRUTH / "gpu"
SWEEPS = {"H100": "NVIDIA H100 80GB HBM3", "H200": "NVIDIA H200"}
"""Sweep files by the GPU in their name, and what NVML calls it."""
CLIENTS_ON = SWEEPS["H100"]
_NUM_COLD = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Bytes and seconds that a run took.

    ``requested_bytes`` is what tensors and workspaces asked for at the peak, ``device_bytes`` the
    process by NVML, ``seconds`` a warm step, or a whole generation: the median of ``warm_s``.
    """

    requested_bytes: int
    allocated_bytes: int
    reserved_bytes: int
    device_bytes: int
    seconds: float | None = None
    warm_s: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRun:
    """A run of transformers' Trainer, TRL's SFTTrainer or ``generate()``.

    ``arguments`` are those that the recording script gives by its own names.
    """

    name: str
    arguments: Mapping[str, Any]
    reading: Reading

    @property
    def model(self) -> str:
        """The catalogue's name of the model."""
        name: str = self.arguments["model"]
        return name

    @property
    def kind(self) -> str:
        """The client: ``trainer``, ``sft`` or ``gen``."""
        kind: str = self.arguments["kind"]
        return kind


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRun:
    """A case of ``make gpu-sweep`` that ran on a GPU of a name."""

    gpu: str
    case: Case
    measured: Measurement


@cache
def list_client_runs() -> tuple[ClientRun, ...]:
    """Return the runs of real clients on an H100."""
    lines = (GPU / "real_h100.jsonl").read_text().splitlines()
    return tuple(_read_client_run(json.loads(line)) for line in lines)


@cache
def list_sweep_runs() -> tuple[SweepRun, ...]:
    """Return every measured row of the sweeps, the last of each name."""
    runs = []
    for gpu, name in SWEEPS.items():
        _, rows = read_lines((GPU / f"sweep_{gpu.lower()}.jsonl").read_bytes())
        last = {row.case.name: row for row in rows}
        runs += [
            SweepRun(gpu=name, case=row.case, measured=row.measured)
            for row in last.values()
            if row.measured is not None
        ]
    return tuple(runs)


def _read_client_run(row: Mapping[str, Any]) -> ClientRun:
    seconds = [step["s"] for step in row["steps"]] if "steps" in row else row["seconds"]
    return ClientRun(
        name=row["case"]["name"],
        arguments=row["case"],
        reading=Reading(
            requested_bytes=row["peak_requested"],
            allocated_bytes=row["peak_allocated"],
            reserved_bytes=row["peak_reserved"],
            device_bytes=row["nvml_process_peak"],
            seconds=median(seconds[_NUM_COLD:]),
            warm_s=tuple(seconds[_NUM_COLD:]),
        ),
    )


def make_recorded_plans(num_gpus: int = 1) -> PlanCache:
    """Return a cache for models that were built on the GPU, as those of the recorded rows.

    One of several ranks was built without memory, then given its own part alone; DDP kept its first
    bucket there (``worker/probes/ranks``).
    """
    plans = PlanCache()
    plans.replays.builds_on_gpu = num_gpus == 1
    plans.replays.keeps_first_bucket = num_gpus > 1
    return plans
