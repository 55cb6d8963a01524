"""Lines of measurements as flat rows, and rows as CSV that no spreadsheet takes for formulas."""

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import structs

from service.contract.schemas.measurement_rows import MeasurementRow
from service.contract.to_answer.timestamps import timestamp, timestamp_or_none
from service.usecases.stored import KeptAnswer, MeasurementLine

COLUMNS = list(MeasurementRow.__struct_fields__)
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet begins a formula with (owasp.org, CSV Injection): a quote before it makes it text."""
NANOSECONDS = 1e9
_Answer = tuple[float | None, tuple[float, float] | None]
_Answers = tuple[_Answer, _Answer]
"""The analytic answer and the calibrated one, each with its interval."""


def row_of(line: MeasurementLine) -> MeasurementRow:
    """Return the flat row of a measurement."""
    peaks, workload = line.peaks, line.workload
    return MeasurementRow(
        id=str(line.id),
        created_at=timestamp(line.created_at),
        finished_at=timestamp_or_none(line.finished_at),
        source=line.source,
        status=line.status.value,
        problem=line.problem,
        device=line.device,
        model=line.model,
        family=line.family,
        task=line.task,
        gpu=line.gpu,
        out_of_memory=_flag(peaks.get("out_of_memory")),
        extrapolated=line.extrapolated,
        calibration=None if line.calibration_id is None else str(line.calibration_id),
        kind=_kind(line),
        device_total_used_bytes=_count(peaks.get("device_total_used_bytes")),
        **_asked(workload, line.layout),
        **_quantities(line),
        **_step_time(line),
        **_environment(line.environment),
    )


def csv_of(rows: Iterable[MeasurementRow], *, header: bool = False) -> bytes:
    """Return rows as CSV (RFC 4180), the first time under the names of the columns."""
    text = io.StringIO()
    writer = csv.writer(text)
    if header:
        writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow([_cell(value) for value in structs.astuple(row)])
    return text.getvalue().encode()


def _cell(value: object) -> object:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case str() if value.startswith(FORMULA):
            return f"'{value}"
        case _:
            return value


def _asked(workload: Mapping[str, Any], layout: Mapping[str, Any]) -> dict[str, Any]:
    degrees = [layout.get(f"{axis}_parallel", 1) for axis in ("data", "tensor", "pipeline", "context")]
    precision = workload.get("precision")
    lengths = [workload.get(name) for name in ("sequence_length", "prompt_tokens", "output_tokens")]
    return {
        "num_gpus": degrees[0] * degrees[1] * degrees[2] * degrees[3] if layout else None,
        "framework": _text(workload.get("framework") or workload.get("engine")),
        "method": _text(workload.get("method")),
        "precision": _text(precision.get("name") if isinstance(precision, Mapping) else workload.get("weight_dtype")),
        "batch": _count(workload.get("micro_batch_size", workload.get("num_sequences"))),
        "sequence_length": sum(length for length in lengths if isinstance(length, int)) or None,
    }


def _quantities(line: MeasurementLine) -> dict[str, Any]:
    """Return measured, predicted and errors of every quantity, as the measurement keeps them or calibration does."""
    compared = {one["quantity"]: one for one in _list(line.prediction.get("quantities"))}
    compared["allocated_bytes"] = {"predicted": line.prediction.get("allocated_bytes"), **compared.get("allocated_bytes", {})}
    engine = line.peaks.get("engine")
    peaks = {**line.peaks, **(engine if isinstance(engine, Mapping) else {})}
    columns: dict[str, Any] = {}
    for name in ("allocated", "reserved", "device"):
        answers = _answers(compared.get(f"{name}_bytes", {}), line.residuals.get(name))
        columns |= _beside(name, "_bytes", _count(peaks.get(f"{name}_bytes")), answers)
    for name in ("weight", "kv_pool"):
        measured, predicted = _count(peaks.get(f"{name}_bytes")), _count(compared.get(f"{name}_bytes", {}).get("predicted"))
        columns |= {
            f"{name}_bytes": measured,
            f"predicted_{name}_bytes": predicted,
            f"{name}_error": _error(predicted, measured),
        }
    return columns | {
        "kv_pool_tokens": _count(peaks.get("kv_pool_tokens")),
        "predicted_kv_pool_tokens": _count(compared.get("kv_pool_tokens", {}).get("predicted")),
    }


def _answers(kept: Mapping[str, Any], residual: KeptAnswer | None) -> _Answers:
    """Return the two answers about bytes: what was stored beside the reading, else what calibration keeps."""
    predicted, calibrated = _count(kept.get("predicted")), _count(kept.get("calibrated"))
    low, high = _count(kept.get("low")), _count(kept.get("high"))
    interval = None if low is None or high is None else (low, high)
    if residual is None:
        return (predicted, interval), (calibrated, None)
    # Both answers of one place: an error after calibration beside another's before it would say nothing.
    if predicted is None or calibrated is None:
        return (residual.predicted, residual.interval), (residual.after, residual.after_interval)
    return (predicted, residual.interval), (calibrated, residual.after_interval)


def _beside(name: str, unit: str, measured: float | None, answers: _Answers) -> dict[str, Any]:
    columns: dict[str, Any] = {f"{name}{unit}": measured}
    for said, error, (value, interval) in zip(("predicted", "calibrated"), ("", "calibrated_"), answers, strict=True):
        low, high = interval or (None, None)
        columns |= {
            f"{said}_{name}{unit}": value,
            f"{said}_{name}_low{unit}": low,
            f"{said}_{name}_high{unit}": high,
            f"{error}{name}_error": _error(value, measured),
        }
    return columns


def _step_time(line: MeasurementLine) -> dict[str, Any]:
    measured = line.step_time_s.get("median")
    seconds = float(measured) if isinstance(measured, int | float) else None
    kept = line.residuals.get("step_time")
    if kept is None:
        return _beside("step_time", "_s", seconds, ((None, None), (None, None)))
    before = kept.predicted / NANOSECONDS, _seconds(kept.interval)
    return _beside("step_time", "_s", seconds, (before, (kept.after / NANOSECONDS, _seconds(kept.after_interval))))


def _seconds(interval: tuple[int, int] | None) -> tuple[float, float] | None:
    return None if interval is None else (interval[0] / NANOSECONDS, interval[1] / NANOSECONDS)


def _kind(line: MeasurementLine) -> str | None:
    return next((kept.kind for kept in line.residuals.values()), None)


def _environment(told: Mapping[str, Any]) -> dict[str, Any]:
    names = ("host", "driver", "cuda", "torch", "transformers", "peft", "allocator")
    engine = told.get("engine")
    version = told.get(str(engine)) if engine is not None else None
    return {name: _text(told.get(name)) for name in names} | {
        "environment_gpu": _text(told.get("gpu")),
        "engine_version": None if version is None else f"{engine} {version}",
    }


def _error(predicted: float | None, measured: float | None) -> float | None:
    return None if predicted is None or not measured else predicted / measured - 1


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
