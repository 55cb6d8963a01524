"""A probe that answers what an H100 did: ``python -m tests.recorded_probe``.

It knows the sweep of ``tests/data/truth/gpu`` and refuses any other question. Releases are those of
this process, as a probe's always are.
"""

import sys
from importlib.metadata import version
from pathlib import Path

from service.base.typed import convert
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
    (run,) = result.probes
    planned = PlannedRun(
        num_layers=run.num_layers,
        micro_batch_size=run.micro_batch_size,
        sequence_length=run.sequence_length,
        why="the whole model",
        expected_s=1.0,
    )
    _write(Planned(runs=(planned,), expected_s=1.0))
    _write(result)
    return 0


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
