"""Traced steps and passes of models with other heads: ``python -m tests.accuracy.heads --write``.

Each case runs the real class of transformers on our own trace (``worker/probes/trace``) and keeps
the highest live bytes of each phase, with the parameters counted on the built model.
``tests/data/truth/README.md`` says how.
"""

import json
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from service.catalog.models import load_config, resolve_model
from service.estimator.estimate import estimate
from service.estimator.memory.timeline import build_train_timeline
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.model.heads.config import put_head_in_config
from service.estimator.values.device import Device
from service.estimator.values.heads import Head
from service.estimator.values.layout import Layout
from service.estimator.values.workload import ServeWorkload, TrainWorkload, Workload
from tests.accuracy.cases import TRUTH
from tests.accuracy.contract import read_training

FILE = TRUTH / "heads.jsonl"
_HUGE = Device(name="unbounded", capacity_bytes=2**60, usable_bytes=2**60)
_PHASES = {"forward": "forward_pass", "backward": "backward_pass", "optimizer": "optimizer_step"}


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadCase:
    """A model with a head, what it ran, and what was counted.

    ``config`` is that of a model outside of the catalogue, with its ``source``.
    """

    id: str
    model: str
    head: Head
    num_labels: int | None
    options: Mapping[str, Any]
    parameters: int
    peaks: Mapping[str, int]
    config: Mapping[str, Any] | None = None
    source: str | None = None

    def read_config(self) -> Mapping[str, object]:
        """Return the config.json that names the head."""
        config = self.config or load_config(resolve_model(self.model))
        layers = self.options.get("layers")
        cut = {} if layers is None else {"num_hidden_layers": layers}
        return put_head_in_config({**config, **cut}, self.head, self.num_labels)

    def get_workload(self) -> Workload:
        """Return what ran."""
        options = self.options
        if "prompt" not in options:
            return read_training(options)
        return ServeWorkload(
            num_sequences=options["batch"], prompt_tokens=options["prompt"], output_tokens=0
        )

    def estimate_peaks(self) -> dict[str, int]:
        """Return what the estimator says of the counted phases."""
        model, workload = self.build(), self.get_workload()
        if isinstance(workload, TrainWorkload):
            phases = dict(build_train_timeline(model, workload, Layout()).phases)
            return {name: phases[phase] for name, phase in _PHASES.items()}
        answer = estimate(model, workload, layout=Layout(), device=_HUGE)
        return {"prefill": {part.name: part.allocated_bytes for part in answer.instants}["prefill"]}

    def build(self) -> Architecture:
        """Return the model."""
        return architecture_from_config(self.read_config())


@cache
def head_cases() -> tuple[HeadCase, ...]:
    """Return the cases with what was counted."""
    return tuple(_read_cases())


def _read_cases() -> Iterator[HeadCase]:
    for line in FILE.read_text().splitlines():
        row = json.loads(line)
        yield HeadCase(
            **{
                "num_labels": None,
                "parameters": 0,
                "peaks": {},
                **row,
                "head": Head(row["head"]),
            }
        )


def trace_case(case: HeadCase) -> HeadCase:
    """Return the case as it is counted on the real class."""
    # Loaded where models run: what reads the file alone does without torch.
    from service.probing.plan import ProbeQuestion, get_target_point  # noqa: PLC0415
    from tests.accuracy.traced import trace_peaks  # noqa: PLC0415
    from worker.probes.measure import make_probe_setup  # noqa: PLC0415
    from worker.probes.models.build import build_model  # noqa: PLC0415

    config, workload = case.read_config(), case.get_workload()
    question = ProbeQuestion(
        architecture=case.build(),
        workload=workload,
        layout=Layout(),
        full_depth=True,
        deadline_s=600.0,
    )
    point = get_target_point(question)
    built = build_model(
        config, layers=point.layers, dtype=_get_dtype(workload), attention="sdpa", device="meta"
    )
    return replace(
        case,
        parameters=sum(parameter.numel() for parameter in built.parameters()),
        peaks=trace_peaks(make_probe_setup(question, config, 0), point),
    )


def _get_dtype(workload: Workload) -> Any:  # noqa: ANN401 - a number format of either task
    if isinstance(workload, TrainWorkload):
        return workload.precision.param_dtype
    return workload.weight_dtype


def _format(case: HeadCase) -> str:
    fields = {name: getattr(case, name) for name in HeadCase.__slots__}
    return json.dumps({name: value for name, value in fields.items() if value is not None})


def main() -> None:
    """Trace every case anew, and write what was counted."""
    warnings.simplefilter("ignore")
    lines = []
    for case in _read_cases():
        traced = trace_case(case)
        found = case.estimate_peaks()
        off = {name: found[name] - value for name, value in traced.peaks.items()}
        sys.stdout.write(f"{case.id:28} {traced.parameters:>13,} {dict(traced.peaks)} {off}\n")
        sys.stdout.flush()
        lines.append(_format(traced))
    if "--write" in sys.argv:
        FILE.write_text("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main()
