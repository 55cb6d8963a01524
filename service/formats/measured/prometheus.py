"""GPU memory from the DCGM exporter or a Prometheus query.

The exporter's own page is read, or the answer to a query for its metric.

``DCGM_FI_DEV_FB_USED`` counts the entire device's frame buffer in MiB, cut
(docs.nvidia.com/datacenter/dcgm, field 252). The answers are those of ``/api/v1/query`` and
``/api/v1/query_range`` (prometheus.io/docs/prometheus/latest/querying/api).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import inf, isfinite

from service.formats.measured.reading import (
    MIB,
    Format,
    LeftOut,
    MeasuredFormatError,
    Parsed,
    Place,
    Quantity,
    Reading,
)
from service.formats.measured.text import format_value, iter_lines, parse_finite

METRIC = "DCGM_FI_DEV_FB_USED"
LARGEST_MIB = 1 << 20
"""A TiB: more than any GPU has, so a larger number was counted in other units."""
UNNAMED_NOTE = (
    "the series has no metric name, as after max_over_time(...): it is read as "
    "DCGM_FI_DEV_FB_USED, in MiB"
)

_SAMPLE = re.compile(
    r"(?P<name>[A-Za-z_:][A-Za-z0-9_:]*+)\s*+(?:\{(?P<labels>.*)\}\s*+)?(?P<value>[^\s{}]++)(?:\s+(?P<time>-?[0-9]{1,16}))?"
)
_LABEL = re.compile(r'\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}
_ESCAPE = re.compile(r'\\[\\"n]')
_MISSING = frozenset({"NaN", "+Inf", "-Inf"})
_EARLIEST_S = datetime(1, 1, 1, tzinfo=UTC).timestamp()
_LATEST_S = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
_SERIES = ("matrix", "vector")
_GPU_LABELS = frozenset({"gpu", "UUID", "uuid", "device", "modelName"})


@dataclass(slots=True, kw_only=True)
class _Peak:
    """The highest of one counter's samples.

    A month of samples is read one by one: as a value each would take ten times its bytes.
    """

    mib: float = -1.0
    line: int | None = None
    num_samples: int = 0
    first_s: float = inf
    last_s: float = -inf

    def add(self, mib: float, moment_s: float | None, line: int | None = None) -> None:
        """Add a sample and when it was taken, if that is known."""
        self.num_samples += 1
        if mib > self.mib:
            self.mib, self.line = mib, line
        if moment_s is not None and _EARLIEST_S <= moment_s <= _LATEST_S:
            self.first_s = min(self.first_s, moment_s)
            self.last_s = max(self.last_s, moment_s)


@dataclass(slots=True, kw_only=True)
class _Peaks:
    """Peaks of all counters, by their place."""

    by_place: dict[Place, _Peak] = field(default_factory=dict)
    driver: str | None = None

    def find(self, labels: Mapping[str, str]) -> _Peak:
        """Return the peak of a counter with these labels."""
        self.driver = self.driver or labels.get("DCGM_FI_DRIVER_VERSION") or None
        return self.by_place.setdefault(_make_place(labels), _Peak())


def parse_exposition(text: str) -> Parsed:
    """Return the readings of an exporter's page.

    Many pages may follow one another.
    """
    peaks = _Peaks()
    for number, line in iter_lines(text):
        stripped = line.strip()
        if stripped.startswith(METRIC):
            _add_line(peaks, stripped, number)
    return _build_parsed(peaks, (), ())


def parse_query(document: Mapping[str, object]) -> Parsed:
    """Return the readings of an answer of Prometheus."""
    if document.get("status") != "success":
        why = "" if document.get("error") is None else f": {format_value(document.get('error'))}"
        message = f'status is {format_value(document.get("status"))}; expected "success"{why}'
        raise MeasuredFormatError(message)
    data = document.get("data")
    kind = data.get("resultType") if isinstance(data, Mapping) else None
    result = data.get("result") if isinstance(data, Mapping) else None
    if kind not in _SERIES or not isinstance(result, list):
        message = (
            f"resultType is {format_value(kind)}; expected {' or '.join(_SERIES)} with a list of "
            "series"
        )
        raise MeasuredFormatError(message)
    peaks = _Peaks()
    left_out: list[LeftOut] = []
    notes: set[str] = set()
    for index, series in enumerate(result):
        labels = _read_labels(series, index)
        reason = _explain_unfit(labels)
        if reason is not None:
            left_out.append(LeftOut(what=f"series {index}", reason=reason))
            continue
        notes |= set() if "__name__" in labels else {UNNAMED_NOTE}
        _add_series(peaks, series, labels, index)
    return _build_parsed(peaks, left_out, sorted(notes))


def _add_line(peaks: _Peaks, line: str, number: int) -> None:
    match = _SAMPLE.fullmatch(line)
    if match is None:
        message = f'expected {METRIC}{{gpu="0",…}} 40537, and found {line[:80]!r}'
        raise MeasuredFormatError(message, line=number)
    if match["name"] != METRIC or match["value"] in _MISSING:
        return
    value = parse_finite(match["value"], what=METRIC, line=number)
    moment_s = None if match["time"] is None else int(match["time"]) / 1000
    labels = _parse_labels(match["labels"] or "", number)
    peaks.find(labels).add(_check_mib(value, number), moment_s, number)


def _parse_labels(text: str, line: int) -> dict[str, str]:
    labels: dict[str, str] = {}
    position = 0
    while position < len(text.rstrip().rstrip(",")):
        match = _LABEL.match(text, position)
        if match is None:
            message = (
                'expected labels such as gpu="0",UUID="GPU-…", and found '
                f"{text[position : position + 60]!r}"
            )
            raise MeasuredFormatError(message, line=line)
        labels[match[1]] = _ESCAPE.sub(lambda escape: _ESCAPES[escape[0]], match[2])
        position = match.end()
    return labels


def _read_labels(series: object, index: int) -> Mapping[str, str]:
    metric = series.get("metric") if isinstance(series, Mapping) else None
    if not isinstance(metric, Mapping) or not all(
        isinstance(value, str) for value in metric.values()
    ):
        message = f'series {index} has no object "metric" of labels'
        raise MeasuredFormatError(message)
    return metric


def _explain_unfit(labels: Mapping[str, str]) -> str | None:
    name = labels.get("__name__")
    if name is not None and name != METRIC:
        return f"metric {name[:80]} is not {METRIC}"
    if name is None and not labels.keys() & _GPU_LABELS:
        return (
            f"no label names a GPU ({', '.join(sorted(_GPU_LABELS))}), so nothing says what was "
            "counted: keep them"
        )
    return None


def _add_series(peaks: _Peaks, series: object, labels: Mapping[str, str], index: int) -> None:
    assert isinstance(series, Mapping)  # noqa: S101 - its labels were read from it
    values = series["values"] if "values" in series else [series.get("value")]
    if not isinstance(values, list):
        message = (
            f"values of series {index} are a {type(values).__name__}; expected a list of [time, "
            "value]"
        )
        raise MeasuredFormatError(message)
    peak = None
    for pair in values:
        if not isinstance(pair, list) or len(pair) != 2:  # noqa: PLR2004 - a time and a value
            message = f'series {index} has {format_value(pair)}; expected [time, "value"]'
            raise MeasuredFormatError(message)
        if isinstance(pair[1], str) and pair[1] in _MISSING:
            continue
        moment_s = parse_finite(pair[0], what=f"a time of series {index}")
        value = parse_finite(pair[1], what=f"a value of series {index}")
        peak = peak or peaks.find(labels)
        peak.add(_check_mib(value, None), moment_s)


def _check_mib(value: float, line: int | None) -> float:
    if not 0 <= value <= LARGEST_MIB:
        message = (
            f"{METRIC} is {value:.15g}; expected MiB, 0 to {LARGEST_MIB}: ask for the metric as "
            "the exporter gives it"
        )
        raise MeasuredFormatError(message, line=line)
    return value


def _build_parsed(
    peaks: _Peaks,
    left_out: tuple[LeftOut, ...] | list[LeftOut],
    notes: tuple[str, ...] | list[str],
) -> Parsed:
    if not peaks.by_place and not left_out:
        message = (
            f"has no number of {METRIC}; expected lines or series such as "
            f'{METRIC}{{gpu="0",UUID="GPU-…"}} 40537'
        )
        raise MeasuredFormatError(message)
    return Parsed(
        format=Format.PROMETHEUS,
        readings=tuple(_make_reading(place, peak) for place, peak in peaks.by_place.items()),
        left_out=tuple(left_out),
        environment={} if peaks.driver is None else {"driver": peaks.driver},
        notes=tuple(notes),
    )


def _make_reading(place: Place, peak: _Peak) -> Reading:
    value = int(peak.mib * MIB)
    return Reading(
        quantity=Quantity.DEVICE_TOTAL_USED,
        value=value,
        low=value,
        high=value + MIB - 1,
        place=place,
        line=peak.line,
        sampled=True,
        num_samples=peak.num_samples,
        since=_format_time(peak.first_s),
        until=_format_time(peak.last_s),
    )


def _format_time(seconds: float) -> str | None:
    if not isfinite(seconds):
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _make_place(labels: Mapping[str, str]) -> Place:
    # A GPU that is nobody's has these labels, empty.
    pod = labels.get("exported_pod") or labels.get("pod") or None
    namespace = labels.get("exported_namespace") or labels.get("namespace") or None
    return Place(
        job=labels.get("hpc_job")
        or (pod if pod is None or namespace is None else f"{namespace}/{pod}"),
        host=labels.get("Hostname") or labels.get("instance"),
        gpu=labels.get("gpu"),
        gpu_uuid=labels.get("UUID") or labels.get("uuid"),
        gpu_name=labels.get("modelName"),
        process=labels.get("GPU_I_PROFILE"),
    )
