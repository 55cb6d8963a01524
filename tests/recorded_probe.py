"""A probe that answers what an H100 did: ``python -m tests.recorded_probe [SLOWER]``.

It knows the sweep of ``tests/data/truth/gpu`` and refuses any other question. Beside a question it
has the recorded run of the fewest tokens, as a probe runs few tokens for its host's speed; there it
took ``SLOWER`` times as long. Releases are those of this process, as a probe's always are.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from msgspec import structs

from service.base.typed import convert
from service.estimator.values.workload import TrainWorkload, Workload
from service.jobs.codec import decode_request, encode_line
from service.jobs.contract import (
    FailureKind,
    Planned,
    PlannedRun,
    ProbeFailure,
    ProbeLine,
    ProbeRequest,
    ProbeResult,
)
from service.jobs.readings import ProbeReading, StepTime
from tests.gpu.sweep.case import Header, Row, read_lines
from tests.gpu.sweep.priors import build_entry

SWEEP = Path(__file__).parent / "data" / "truth" / "gpu" / "sweep_h100.jsonl"
RELEASES = ("torch", "transformers", "peft")


def main() -> int:
    """Answer the request on stdin."""
    request = decode_request(sys.stdin.buffer.read())
    header, rows = read_lines(SWEEP.read_bytes())
    assert header is not None
    row = next((row for row in rows if _is_asked(row, request)), None)
    if row is None:
        message = f"nobody recorded {request.model.name} under {request.task}"
        _write(ProbeFailure(kind=FailureKind.UNSUPPORTED, message=message))
        return 0
    result = _build_result(header, row)
    pace = _find_pace(rows, row)
    if pace is not None:
        slower = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
        (run,) = _build_result(header, pace).probes
        result = structs.replace(result, probes=(*result.probes, _slow_down(run, slower)))
    planned = tuple(
        PlannedRun(
            num_layers=run.num_layers,
            micro_batch_size=run.micro_batch_size,
            sequence_length=run.sequence_length,
            why="the whole model",
            expected_s=1.0,
        )
        for run in result.probes
    )
    _write(Planned(runs=planned, expected_s=float(len(planned))))
    _write(result)
    return 0


def _find_pace(rows: Sequence[Row], asked: Row) -> Row | None:
    """Return the run of the fewest tokens that is like the asked one otherwise."""
    like = [
        row
        for row in rows
        if row.measured is not None
        and row.case.layers is None
        and row.case.model == asked.case.model
        and row.case.layout == asked.case.layout
        and _drop_tokens(row.case.task.workload) == _drop_tokens(asked.case.task.workload)
    ]
    fewest = min(like, key=lambda row: _count_tokens(row.case.task.workload))
    return None if fewest is asked else fewest


def _drop_tokens(workload: Workload) -> Workload:
    if isinstance(workload, TrainWorkload):
        return replace(workload, micro_batch_size=1, sequence_length=1)
    return workload


def _count_tokens(workload: Workload) -> int:
    return (
        workload.micro_batch_size * workload.sequence_length
        if isinstance(workload, TrainWorkload)
        else 0
    )


def _slow_down(run: ProbeReading, slower: float) -> ProbeReading:
    assert run.step_time_s is not None
    seconds = run.step_time_s
    slowed = StepTime(median=seconds.median * slower, p95=seconds.p95 * slower)
    return structs.replace(run, step_time_s=slowed, layers=tuple(range(run.num_layers)))


def _is_asked(row: Row, request: ProbeRequest) -> bool:
    case = row.case
    return (
        row.measured is not None
        and case.layers is None
        and case.model == request.model.name
        and case.layout == request.layout
        and case.task.workload == request.task.workload
    )


def _build_result(header: Header, row: Row) -> ProbeResult:
    assert row.measured is not None
    entry = build_entry(row.case, row.measured, header, gpu="")
    environment = header.environment | {name: version(name) for name in RELEASES}
    return convert({**entry["result"], "environment": environment}, ProbeResult)


def _write(line: ProbeLine) -> None:
    sys.stdout.buffer.write(encode_line(line))
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main())
