"""Measurements as flat rows."""

from collections.abc import Mapping
from typing import Any

from service.contract.schemas.measurement_rows import MeasurementRow
from service.contract.to_answer.timestamps import format_optional_timestamp, format_timestamp
from service.usecases.stored import MeasurementLine, StoredResidual

COLUMNS = list(MeasurementRow.__struct_fields__)
NANOSECONDS = 1e9
_Answer = tuple[float | None, tuple[float, float] | None]
_Answers = tuple[_Answer, _Answer]
"""The analytic answer and the calibrated one, each with its interval."""


def build_row(line: MeasurementLine) -> MeasurementRow:
    """Return the flat row of a measurement."""
    peaks, workload = line.peaks, line.workload
    return MeasurementRow(
        id=str(line.id),
        created_at=format_timestamp(line.created_at),
        finished_at=format_optional_timestamp(line.finished_at),
        source=line.source,
        status=line.status.value,
        problem=line.problem,
        device=line.device,
        model=line.model,
        family=line.family,
        task=line.task,
        gpu=line.gpu,
        out_of_memory=_to_flag(peaks.get("out_of_memory")),
        extrapolated=line.extrapolated,
        calibration=None if line.calibration_id is None else str(line.calibration_id),
        kind=_find_kind(line),
        device_total_used_bytes=_to_count(peaks.get("device_total_used_bytes")),
        **_collect_configuration(workload, line.layout),
        **_collect_quantities(line),
        **_collect_step_time(line),
        **_collect_environment(line.environment),
    )


def _collect_configuration(
    workload: Mapping[str, Any], layout: Mapping[str, Any]
) -> dict[str, Any]:
    degrees = [
        layout.get(f"{axis}_parallel", 1) for axis in ("data", "tensor", "pipeline", "context")
    ]
    precision = workload.get("precision")
    lengths = [workload.get(name) for name in ("sequence_length", "prompt_tokens", "output_tokens")]
    return {
        "num_gpus": degrees[0] * degrees[1] * degrees[2] * degrees[3] if layout else None,
        "framework": _to_text(workload.get("framework") or workload.get("engine")),
        "method": _to_text(workload.get("method")),
        "precision": _to_text(
            precision.get("name")
            if isinstance(precision, Mapping)
            else workload.get("weight_dtype"),
        ),
        "batch": _to_count(workload.get("micro_batch_size", workload.get("num_sequences"))),
        "sequence_length": sum(length for length in lengths if isinstance(length, int)) or None,
    }


def _collect_quantities(line: MeasurementLine) -> dict[str, Any]:
    """Return measured, predicted and errors of every quantity.

    As the measurement stores them, or else as calibration does.
    """
    compared = {entry["quantity"]: entry for entry in _to_list(line.prediction.get("quantities"))}
    compared["allocated_bytes"] = {
        "predicted": line.prediction.get("allocated_bytes"),
        **compared.get("allocated_bytes", {}),
    }
    engine = line.peaks.get("engine")
    peaks = {**line.peaks, **(engine if isinstance(engine, Mapping) else {})}
    columns: dict[str, Any] = {}
    for name in ("allocated", "reserved", "device"):
        answers = _collect_answers(compared.get(f"{name}_bytes", {}), line.residuals.get(name))
        columns |= _build_columns(name, "_bytes", _to_count(peaks.get(f"{name}_bytes")), answers)
    for name in ("weight", "kv_pool"):
        measured, predicted = (
            _to_count(peaks.get(f"{name}_bytes")),
            _to_count(compared.get(f"{name}_bytes", {}).get("predicted")),
        )
        columns |= {
            f"{name}_bytes": measured,
            f"predicted_{name}_bytes": predicted,
            f"{name}_error": _compute_error(predicted, measured),
        }
    return columns | {
        "kv_pool_tokens": _to_count(peaks.get("kv_pool_tokens")),
        "predicted_kv_pool_tokens": _to_count(compared.get("kv_pool_tokens", {}).get("predicted")),
    }


def _collect_answers(stored: Mapping[str, Any], residual: StoredResidual | None) -> _Answers:
    """Return the analytic and the calibrated answer about bytes.

    What was stored beside the reading, else what calibration keeps.
    """
    predicted, calibrated = _to_count(stored.get("predicted")), _to_count(stored.get("calibrated"))
    low, high = _to_count(stored.get("low")), _to_count(stored.get("high"))
    interval = None if low is None or high is None else (low, high)
    if residual is None:
        return (predicted, interval), (calibrated, None)
    # Both answers of one place: an error after calibration beside another's before it would say
    # nothing.
    if predicted is None or calibrated is None:
        return (residual.predicted, residual.interval), (residual.after, residual.after_interval)
    return (predicted, residual.interval), (calibrated, residual.after_interval)


def _build_columns(
    name: str, unit: str, measured: float | None, answers: _Answers
) -> dict[str, Any]:
    columns: dict[str, Any] = {f"{name}{unit}": measured}
    for prefix, error_prefix, (value, interval) in zip(
        ("predicted", "calibrated"), ("", "calibrated_"), answers, strict=True
    ):
        low, high = interval or (None, None)
        columns |= {
            f"{prefix}_{name}{unit}": value,
            f"{prefix}_{name}_low{unit}": low,
            f"{prefix}_{name}_high{unit}": high,
            f"{error_prefix}{name}_error": _compute_error(value, measured),
        }
    return columns


def _collect_step_time(line: MeasurementLine) -> dict[str, Any]:
    measured = line.step_time_s.get("median")
    seconds = float(measured) if isinstance(measured, int | float) else None
    residual = line.residuals.get("step_time")
    if residual is None:
        return _build_columns("step_time", "_s", seconds, ((None, None), (None, None)))
    before = residual.predicted / NANOSECONDS, _to_seconds(residual.interval)
    return _build_columns(
        "step_time",
        "_s",
        seconds,
        (before, (residual.after / NANOSECONDS, _to_seconds(residual.after_interval))),
    )


def _to_seconds(interval: tuple[int, int] | None) -> tuple[float, float] | None:
    return None if interval is None else (interval[0] / NANOSECONDS, interval[1] / NANOSECONDS)


def _find_kind(line: MeasurementLine) -> str | None:
    return next((residual.kind for residual in line.residuals.values()), None)


def _collect_environment(environment: Mapping[str, Any]) -> dict[str, Any]:
    names = ("host", "driver", "cuda", "torch", "transformers", "peft", "allocator")
    engine = environment.get("engine")
    version = environment.get(str(engine)) if engine is not None else None
    return {name: _to_text(environment.get(name)) for name in names} | {
        "environment_gpu": _to_text(environment.get("gpu")),
        "engine_version": None if version is None else f"{engine} {version}",
    }


def _compute_error(predicted: float | None, measured: float | None) -> float | None:
    return None if predicted is None or not measured else predicted / measured - 1


def _to_count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _to_flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _to_text(value: object) -> str | None:
    return None if value is None else str(value)


def _to_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
