"""Conversion of a data file to shipped measurements of the catalogue.

Run as ``python -m tests.gpu.sweep.priors sweep.jsonl --source …``. The document is what
``service.catalog.prior_measurements`` reads; it goes into ``service/catalog/priors``. Models at
full depth are shipped, since a request names a model of the catalogue and not some of its layers.
"""

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import msgspec

from service.catalog.models import load_architecture, resolve_model
from service.estimator.values.workload import ServeWorkload, TrainWorkload
from service.jobs.contract import ProbeResult
from service.jobs.readings import InstantReading, Peaks, ProbeReading, StepTime
from tests.gpu.sweep.case import Case, Header, Measurement, Row, read_lines
from tests.gpu.sweep.predict import get_device
from worker.probes.run.extrapolate import LOAD, compute_instant_peaks

_P95 = 18
"""Position of the 95th percentile among twentieths."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the document."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.sweep.priors", description=__doc__)
    parser.add_argument("file", type=Path, help="what a sweep wrote")
    parser.add_argument(
        "--source",
        required=True,
        help="where it was measured, as in 'one NVIDIA H200 of a cloud machine'",
    )
    options = parser.parse_args(arguments)
    header, rows = read_lines(options.file.read_bytes())
    if header is None:
        sys.stderr.write(f"{options.file} is no sweep: it has no environment\n")
        return 2
    document = build_document(header, rows, source=options.source)
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n")
    return 0


def build_document(header: Header, rows: Iterable[Row], *, source: str) -> dict[str, Any]:
    """Build the document of everything that was measured at full depth."""
    gpu = get_device(header.environment).name
    last = {row.case.name: row for row in rows if row.case.layers is None}
    return {
        "source": source,
        "how": header.how,
        "date": header.date,
        "environment": header.environment,
        "measurements": [
            build_entry(row.case, row.measured, header, gpu=gpu)
            for row in last.values()
            if row.measured is not None
        ],
    }


def build_entry(case: Case, measured: Measurement, header: Header, *, gpu: str) -> dict[str, Any]:
    """Build the entry of one measured case."""
    request = {
        "task": msgspec.to_builtins(case.task),
        "layout": msgspec.to_builtins(case.layout),
        "device": header.device,
        "gpu": gpu,
        "full_depth": True,
        "rank": case.rank,
    }
    result: dict[str, Any] = msgspec.to_builtins(_build_result(case, measured))
    # The file says once where everything was measured.
    del result["environment"]
    return {"model": resolve_model(case.model).name, "request": request, "result": result}


def _build_result(case: Case, measured: Measurement) -> ProbeResult:
    ran_out = measured.out_of_memory_at is not None
    instants = _build_instants(measured)
    step_time = _compute_step_time(measured.step_time_s)
    return ProbeResult(
        environment={},
        peaks=Peaks(
            allocated_bytes=measured.live_bytes,
            reserved_bytes=measured.reserved_bytes,
            device_bytes=measured.device_bytes,
            device_total_used_bytes=measured.device_total_used_bytes,
            out_of_memory=ran_out,
        ),
        instants=instants,
        probes=(_build_probe_reading(case, measured, instants, step_time),),
        extrapolated=False,
        transferable=measured.transferable,
        steady_bytes=None if ran_out else measured.steady_bytes,
        step_time_s=step_time,
        notes=measured.notes,
    )


def _build_probe_reading(
    case: Case,
    measured: Measurement,
    instants: tuple[InstantReading, ...],
    step_time: StepTime | None,
) -> ProbeReading:
    workload = case.task.workload
    batch, tokens, output = _get_size(workload)
    return ProbeReading(
        num_layers=load_architecture(resolve_model(case.model)).num_hidden_layers,
        micro_batch_size=batch,
        sequence_length=tokens,
        output_tokens=output,
        instants=instants,
        steady_bytes=measured.steady_bytes,
        step_time_s=step_time,
        prefill_time_s=_compute_step_time(measured.prefill_time_s),
        out_of_memory=measured.out_of_memory_at is not None,
    )


def _get_size(workload: TrainWorkload | ServeWorkload) -> tuple[int, int, int]:
    if isinstance(workload, TrainWorkload):
        return workload.micro_batch_size, workload.sequence_length, 0
    return (
        workload.num_sequences,
        workload.prompt_tokens + workload.output_tokens,
        workload.output_tokens,
    )


def _build_instants(measured: Measurement) -> tuple[InstantReading, ...]:
    live = {LOAD: measured.load_bytes} | compute_instant_peaks(
        {name: pair[0] for name, pair in measured.stretches.items()}
    )
    allocator: Mapping[str, int] = compute_instant_peaks(
        {name: pair[1] for name, pair in measured.stretches.items()}
    )
    return tuple(
        InstantReading(name=name, allocated_bytes=num_bytes, allocator_bytes=allocator.get(name))
        for name, num_bytes in live.items()
    )


def _compute_step_time(seconds: Sequence[float]) -> StepTime | None:
    if not seconds:
        return None
    ordered = sorted(seconds)
    high = quantiles(ordered, n=20, method="inclusive")[_P95] if len(ordered) > 1 else ordered[0]
    return StepTime(median=median(ordered), p95=high)


if __name__ == "__main__":
    sys.exit(main())
