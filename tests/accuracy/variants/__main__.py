"""Traced steps and passes of small models with unusual fields: ``python -m tests.accuracy.variants
--write``.

Each line of the file changes fields of a small config (``tests/tiny_models.py``), as a config.json
may say them. The program builds the real class of transformers, counts its parameters, runs it on
our own trace (``worker/probes/trace``) and keeps the highest live bytes of each phase. A new line
needs its ``model_type``, its ``changes`` and its ``workload`` alone.
"""

import json
import sys
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import Any

from service.estimator.estimate import estimate
from service.estimator.memory.timeline import build_train_timeline
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.device import Device
from service.estimator.values.generation import Client
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import (
    Attention,
    Cache,
    Checkpointing,
    Lora,
    Method,
    ServeWorkload,
    TrainWorkload,
    Workload,
)
from tests.accuracy.cases import TRUTH
from tests.accuracy.contract import CAST_AT_GATHER
from tests.tiny_models import tiny_config

FILE = TRUTH / "variants.jsonl"
_HUGE = Device(name="unbounded", capacity_bytes=2**60, usable_bytes=2**60)
_PHASES = {"forward": "forward_pass", "backward": "backward_pass", "optimizer": "optimizer_step"}
_TRAIN = TrainWorkload(sequence_length=64, micro_batch_size=2, precision=POLICIES["bf16"])
_SERVE = ServeWorkload(num_sequences=2, prompt_tokens=64, output_tokens=2, client=Client.LOOP)
WORKLOADS: Mapping[str, Workload] = {
    "train": _TRAIN,
    "checkpointed": replace(_TRAIN, activation_checkpointing=Checkpointing.FULL),
    "autocast": replace(_TRAIN, precision=POLICIES["amp_bf16"]),
    "lora": replace(_TRAIN, method=Method.LORA, lora=Lora(rank=4)),
    "autocast lora": replace(
        _TRAIN, precision=POLICIES["amp_bf16"], method=Method.LORA, lora=Lora(rank=4)
    ),
    "eager": replace(_TRAIN, attention=Attention.EAGER),
    "loop": replace(_TRAIN, optimizer="adamw_loop"),
    "serve": _SERVE,
    "serve eager": replace(_SERVE, attention=Attention.EAGER),
    "serve one": replace(_SERVE, num_sequences=1),
    "serve long": replace(_SERVE, prompt_tokens=250),
    "serve static": replace(_SERVE, cache=Cache.STATIC),
    "serve room": replace(_SERVE, cache=Cache.STATIC, max_model_len=512),
    "generate once": replace(_SERVE, client=Client.GENERATE),
    "generate static": replace(
        _SERVE, client=Client.GENERATE, cache=Cache.STATIC, prompt_tokens=500, output_tokens=3
    ),
    "fsdp2": _TRAIN,
    "fsdp2 one": replace(
        _TRAIN,
        sequence_length=8,
        method=Method.LORA,
        lora=Lora(rank=4),
        precision=CAST_AT_GATHER,
    ),
    "generate": replace(_SERVE, client=Client.GENERATE, output_tokens=3),
}
_LONE = Layout()
_FSDP2 = Layout(data_parallel=8, sharding=Sharding.FSDP2, zero_stage=3)
_LAYOUTS = {"fsdp2": _FSDP2, "fsdp2 one": replace(_FSDP2, data_parallel=1)}


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantCase:
    """A small model with changed fields, what it ran, and what was counted."""

    model_type: str
    changes: Mapping[str, Any]
    workload: str
    parameters: int = 0
    peaks: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        """Name the case in the output of a test."""
        changes = ",".join(f"{name}={value}" for name, value in self.changes.items())
        return f"{self.model_type}[{changes}] {self.workload}"

    @property
    def layout(self) -> Layout:
        """The layout of the ranks that its workload names."""
        return _LAYOUTS.get(self.workload, _LONE)

    def read_config(self) -> Mapping[str, Any]:
        """Return the config.json."""
        return {**tiny_config(self.model_type), **self.changes}

    def build(self) -> Architecture:
        """Return the model as we read it."""
        return architecture_from_config(self.read_config())

    def estimate_peaks(self) -> dict[str, int]:
        """Return what the estimator says of the counted phases."""
        model, workload = self.build(), WORKLOADS[self.workload]
        if isinstance(workload, TrainWorkload):
            phases = dict(build_train_timeline(model, workload, self.layout).phases)
            return {name: phases[phase] for name, phase in _PHASES.items()}
        answer = estimate(model, workload, layout=self.layout, device=_HUGE)
        peaks = {instant.name: instant.allocated_bytes for instant in answer.instants}
        return {name: peaks[name] for name in ("prefill", "decode")}


@cache
def variant_cases() -> tuple[VariantCase, ...]:
    """Return the cases with what was counted."""
    return tuple(VariantCase(**json.loads(line)) for line in FILE.read_text().splitlines())


def trace_case(case: VariantCase) -> VariantCase:
    """Return the case as it is counted on the real class."""
    # Loaded where models run: what reads the file alone does without torch.
    from service.probing.plan import ProbeQuestion, get_target_point  # noqa: PLC0415
    from tests.accuracy.traced import trace_peaks  # noqa: PLC0415
    from worker.probes.measure import make_probe_setup  # noqa: PLC0415
    from worker.probes.models.build import build_model  # noqa: PLC0415

    config, workload, model = case.read_config(), WORKLOADS[case.workload], case.build()
    question = ProbeQuestion(
        architecture=model,
        workload=workload,
        layout=case.layout,
        full_depth=True,
        deadline_s=600.0,
    )
    layers = tuple(range(model.num_hidden_layers))
    point = replace(get_target_point(question), layers=layers)
    built = build_model(
        config, layers=layers, dtype=_TRAIN.precision.param_dtype, attention="sdpa", device="meta"
    )
    return replace(
        case,
        parameters=sum(parameter.numel() for parameter in built.parameters()),
        peaks=trace_peaks(make_probe_setup(question, config, 0), point),
    )


def main() -> None:
    """Trace every case anew, and write what was counted."""
    warnings.simplefilter("ignore")
    lines = []
    for case in variant_cases():
        traced, estimated = trace_case(case), case.estimate_peaks()
        off = {name: estimated[name] - value for name, value in traced.peaks.items()}
        sys.stdout.write(f"{case!s:70} {traced.parameters:>13,} {off}\n")
        sys.stdout.flush()
        lines.append(json.dumps(asdict(traced)))
    if "--write" in sys.argv:
        FILE.write_text("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main()
