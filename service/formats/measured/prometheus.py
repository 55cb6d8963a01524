"""GPU memory as Prometheus has it: the DCGM exporter's own page, or what a query for its metric answered.

``DCGM_FI_DEV_FB_USED`` counts the whole device's frame buffer in MiB, cut (docs.nvidia.com/datacenter/dcgm, field 252).
The answers are those of ``/api/v1/query`` and ``/api/v1/query_range`` (prometheus.io/docs/prometheus/latest/querying/api).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite

from service.formats.measured.reading import (
    MIB,
    Format,
    LeftOut,
    MeasuredFormatError,
    Parsed,
    Place,
    Quantity,
    Reading,
    highest,
)
from service.formats.measured.text import finite_of, lines_of, shown

METRIC = "DCGM_FI_DEV_FB_USED"
LARGEST_MIB = 1 << 20
"""A TiB: more than any GPU has, so a larger number was counted in other units."""
UNNAMED = "the series has no metric name, as after max_over_time(...): it is read as DCGM_FI_DEV_FB_USED, in MiB"

_SAMPLE = re.compile(
    r"(?P<name>[A-Za-z_:][A-Za-z0-9_:]*)\s*(?:\{(?P<labels>.*)\})?\s*(?P<value>[^\s{}]+)(?:\s+(?P<time>-?[0-9]{1,16}))?"
)
_LABEL = re.compile(r'\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}
_ESCAPE = re.compile(r'\\[\\"n]')
_NOT_THERE = frozenset({"NaN", "+Inf", "-Inf"})
_SERIES = ("matrix", "vector")
_SHOWS_A_GPU = frozenset({"gpu", "UUID", "uuid", "device", "modelName"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sample:
    labels: Mapping[str, str]
    mib: float
    at: str | None
    line: int | None


def parse_exposition(text: str) -> Parsed:
    """Return the readings of an exporter's page, or of many pages one after another."""
    samples: list[_Sample] = []
    for number, line in lines_of(text):
        stripped = line.strip()
        if stripped.startswith(METRIC) and (found := _exposed(stripped, number)) is not None:
            samples.append(found)
    return _parsed(samples, (), ())


def parse_query(document: Mapping[str, object]) -> Parsed:
    """Return the readings of an answer of Prometheus."""
    if document.get("status") != "success":
        why = "" if document.get("error") is None else f": {shown(document.get('error'))}"
        message = f'status is {shown(document.get("status"))}; expected "success"{why}'
        raise MeasuredFormatError(message)
    data = document.get("data")
    kind = data.get("resultType") if isinstance(data, Mapping) else None
    result = data.get("result") if isinstance(data, Mapping) else None
    if kind not in _SERIES or not isinstance(result, list):
        message = f"resultType is {shown(kind)}; expected {' or '.join(_SERIES)} with a list of series"
        raise MeasuredFormatError(message)
    samples: list[_Sample] = []
    left_out: list[LeftOut] = []
    notes: set[str] = set()
    for index, series in enumerate(result):
        labels = _labels(series, index)
        reason = _unfit(labels)
        if reason is not None:
            left_out.append(LeftOut(what=f"series {index}", reason=reason))
            continue
        notes |= set() if "__name__" in labels else {UNNAMED}
        samples += _queried(series, labels, index)
    return _parsed(samples, left_out, sorted(notes))


def _exposed(line: str, number: int) -> _Sample | None:
    found = _SAMPLE.fullmatch(line)
    if found is None:
        message = f'expected {METRIC}{{gpu="0",…}} 40537, and found {line[:80]!r}'
        raise MeasuredFormatError(message, line=number)
    if found["name"] != METRIC or found["value"] in _NOT_THERE:
        return None
    value = finite_of(found["value"], what=METRIC, line=number)
    labels = _label_pairs(found["labels"] or "", number)
    at = None if found["time"] is None else _moment(int(found["time"]) / 1000)
    return _Sample(labels=labels, mib=_mib(value, number), at=at, line=number)


def _label_pairs(text: str, line: int) -> dict[str, str]:
    labels: dict[str, str] = {}
    position = 0
    while position < len(text.rstrip().rstrip(",")):
        found = _LABEL.match(text, position)
        if found is None:
            message = f'expected labels such as gpu="0",UUID="GPU-…", and found {text[position : position + 60]!r}'
            raise MeasuredFormatError(message, line=line)
        labels[found[1]] = _ESCAPE.sub(lambda escape: _ESCAPES[escape[0]], found[2])
        position = found.end()
    return labels


def _labels(series: object, index: int) -> Mapping[str, str]:
    metric = series.get("metric") if isinstance(series, Mapping) else None
    if not isinstance(metric, Mapping) or not all(isinstance(value, str) for value in metric.values()):
        message = f'series {index} has no object "metric" of labels'
        raise MeasuredFormatError(message)
    return metric


def _unfit(labels: Mapping[str, str]) -> str | None:
    name = labels.get("__name__")
    if name is not None and name != METRIC:
        return f"metric {name[:80]} is not {METRIC}"
    if name is None and not labels.keys() & _SHOWS_A_GPU:
        return f"no label names a GPU ({', '.join(sorted(_SHOWS_A_GPU))}), so nothing says what was counted: keep them"
    return None


def _queried(series: object, labels: Mapping[str, str], index: int) -> Iterator[_Sample]:
    assert isinstance(series, Mapping)  # noqa: S101 - its labels were read from it
    values = series["values"] if "values" in series else [series.get("value")]
    if not isinstance(values, list):
        message = f"values of series {index} are a {type(values).__name__}; expected a list of [time, value]"
        raise MeasuredFormatError(message)
    for pair in values:
        if not isinstance(pair, list) or len(pair) != 2:  # noqa: PLR2004 - a time and a value
            message = f'series {index} has {shown(pair)}; expected [time, "value"]'
            raise MeasuredFormatError(message)
        if isinstance(pair[1], str) and pair[1] in _NOT_THERE:
            continue
        moment = finite_of(pair[0], what=f"a time of series {index}")
        value = finite_of(pair[1], what=f"a value of series {index}")
        yield _Sample(labels=labels, mib=_mib(value, None), at=_moment(moment), line=None)


def _mib(value: float, line: int | None) -> float:
    if not 0 <= value <= LARGEST_MIB:
        message = f"{METRIC} is {value:.15g}; expected MiB, 0 to {LARGEST_MIB}: ask for the metric as the exporter gives it"
        raise MeasuredFormatError(message, line=line)
    return value


def _moment(seconds: float) -> str | None:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds") if isfinite(seconds) else None
    except (OverflowError, ValueError, OSError):
        return None


def _parsed(
    samples: list[_Sample], left_out: tuple[LeftOut, ...] | list[LeftOut], notes: tuple[str, ...] | list[str]
) -> Parsed:
    if not samples and not left_out:
        message = f'has no number of {METRIC}; expected lines or series such as {METRIC}{{gpu="0",UUID="GPU-…"}} 40537'
        raise MeasuredFormatError(message)
    by_place: dict[Place, list[Reading]] = {}
    for sample in samples:
        by_place.setdefault(_place(sample.labels), []).append(_reading(sample))
    driver = next((found for sample in samples if (found := sample.labels.get("DCGM_FI_DRIVER_VERSION"))), None)
    return Parsed(
        format=Format.PROMETHEUS,
        readings=tuple(highest(readings) for readings in by_place.values()),
        left_out=tuple(left_out),
        environment={} if driver is None else {"driver": driver},
        notes=tuple(notes),
    )


def _reading(sample: _Sample) -> Reading:
    value = int(sample.mib * MIB)
    return Reading(
        quantity=Quantity.DEVICE_TOTAL_USED,
        value=value,
        low=value,
        high=value + MIB - 1,
        place=_place(sample.labels),
        line=sample.line,
        sampled=True,
        since=sample.at,
    )


def _place(labels: Mapping[str, str]) -> Place:
    pod = labels.get("exported_pod") or labels.get("pod")
    namespace = labels.get("exported_namespace") or labels.get("namespace")
    return Place(
        job=labels.get("hpc_job") or (pod if pod is None or namespace is None else f"{namespace}/{pod}"),
        host=labels.get("Hostname") or labels.get("instance"),
        gpu=labels.get("gpu"),
        gpu_uuid=labels.get("UUID") or labels.get("uuid"),
        gpu_name=labels.get("modelName"),
        process=labels.get("GPU_I_PROFILE"),
    )
