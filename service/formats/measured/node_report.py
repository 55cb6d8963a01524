"""Reports of nodes: what a job used there.

Slurm's epilog sends them, and ``headroom collect``.

A line ``headroom-node 1``, lines ``name value`` of the job, then parts that begin with a line
``[dcgmi]``, ``[rank]`` or ``[gpu]``. ``[dcgmi]`` is what ``dcgmi stats --verbose --job`` prints: a
table for each GPU (docs.nvidia.com/datacenter/dcgm, job statistics). ``[rank]`` is what a process
of the job left by ``deploy/slurm/headroom_stats.py``: its releases and
``torch.cuda.memory_stats()``. ``[gpu]`` is a GPU of a pod as ``service/cli/nodes`` saw it at the
DCGM exporter.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from service.formats.measured.reading import (
    Format,
    LeftOut,
    MeasuredFormatError,
    Parsed,
    Place,
    Quantity,
    Reading,
)
from service.formats.measured.snapshot import parse_memory_stats
from service.formats.measured.text import format_value, parse_json

MARK = "headroom-node"
_VERSION = "1"
_PART = re.compile(r"\[(dcgmi|rank|gpu)\]")
_FACT = re.compile(r"([a-z_]{1,32}) ([ -~]{1,200})")
_GPU = re.compile(r"\|\s*GPU ID:\s*([0-9]{1,4})\s*\|")
_PEAK = re.compile(r"\|\s*Max GPU Memory Used \(bytes\)\s*+(?:\*\s*+)?\|\s*([0-9]{1,16})\s*\|")
_RELEASES = ("torch", "cuda", "transformers", "peft", "driver", "allocator")

Json = Mapping[str, object]
Lines = list[tuple[int, str]]


@dataclass(frozen=True, slots=True)
class _Part:
    kind: str
    lines: Lines = field(default_factory=list)


def parse_node_report(text: str) -> Parsed:
    """Return what a job used on one node."""
    facts, parts = _split(text)
    place = Place(job=facts.get("job"), host=facts.get("host"))
    ranks = [_read_object(part) for part in parts if part.kind == "rank"]
    gpus = [_read_object(part) for part in parts if part.kind == "gpu"]
    num_ranks = _count_ranks(ranks)
    readings = [
        reading
        for part in parts
        if part.kind == "dcgmi"
        for reading in _iter_device_readings(part.lines, place, num_ranks)
    ]
    readings += [_make_gpu_reading(gpu, place) for gpu in gpus]
    left_out: list[LeftOut] = []
    if ranks and len(ranks) == num_ranks:
        readings += [reading for rank in ranks for reading in _iter_rank_readings(rank, place)]
    elif ranks:
        reason = (
            f"{len(ranks)} of {num_ranks} ranks left statistics on this node: the neediest may be "
            "another's (let HEADROOM_RUN be a folder that all nodes share)"
        )
        left_out.append(LeftOut(what="torch's statistics", reason=reason))
    if not readings and not left_out:
        message = (
            "has no reading; expected a part [dcgmi] with `Max GPU Memory Used (bytes)`, [rank] or "
            "[gpu]"
        )
        raise MeasuredFormatError(message)
    return Parsed(
        format=Format.NODE,
        readings=tuple(readings),
        left_out=tuple(left_out),
        environment=_merge_releases([*ranks, *gpus]),
        notes=tuple(_iter_notes(facts)),
        out_of_memory=any(_has_failed(rank) for rank in ranks),
    )


def _split(text: str) -> tuple[dict[str, str], list[_Part]]:
    facts: dict[str, str] = {}
    parts: list[_Part] = []
    for number, line in enumerate(text.splitlines(), start=1):
        match = _PART.fullmatch(line.strip())
        if match is not None:
            parts.append(_Part(match[1]))
        elif parts:
            parts[-1].lines.append((number, line))
        elif line.strip():
            fact = _FACT.fullmatch(re.sub(rf"^{MARK} ", "version ", line.strip()))
            if fact is None:
                message = f"expected a line such as `job 4711`, and found {line[:60]!r}"
                raise MeasuredFormatError(message, line=number)
            facts[fact[1]] = fact[2]
    if facts.get("version") != _VERSION:
        message = f"expected `{MARK} {_VERSION}`, the only form that is known"
        raise MeasuredFormatError(message, line=1)
    return facts, parts


def _read_object(part: _Part) -> Json:
    document = parse_json("\n".join(line for _, line in part.lines))
    if not isinstance(document, dict):
        message = (
            f"[{part.kind}] is no JSON object, as headroom_stats.py or headroom collect writes it"
        )
        raise MeasuredFormatError(message, line=part.lines[0][0] if part.lines else None)
    return document


def _count_ranks(ranks: Iterable[Json]) -> int | None:
    """Return the number of processes, None where nothing says it."""
    sizes = {rank.get("world_size") for rank in ranks}
    if not sizes:
        return None
    size = next(iter(sizes))
    if len(sizes) > 1 or isinstance(size, bool) or not isinstance(size, int) or size < 1:
        message = (
            f"world_size is {', '.join(map(str, sizes))[:60]}; expected one number of all ranks"
        )
        raise MeasuredFormatError(message)
    return size


def _iter_device_readings(lines: Lines, place: Place, num_ranks: int | None) -> Iterator[Reading]:
    gpu: str | None = None
    for number, line in lines:
        if (match := _GPU.match(line)) is not None:
            gpu = match[1]
        elif (match := _PEAK.match(line)) is not None and int(match[1]):
            value = int(match[1])
            yield Reading(
                quantity=Quantity.DEVICE_TOTAL_USED,
                value=value,
                low=value,
                high=None,
                place=Place(job=place.job, host=place.host, gpu=gpu),
                line=number,
                # DCGM looks at its fields once a second by default.
                sampled=True,
                num_samples=0,
                job_gpus=num_ranks,
            )


def _make_gpu_reading(gpu: Json, place: Place) -> Reading:
    peak_bytes = _read_number(gpu, "peak_bytes")
    texts = {name: value for name, value in gpu.items() if isinstance(value, str)}
    return Reading(
        quantity=Quantity.DEVICE_TOTAL_USED,
        value=peak_bytes,
        low=peak_bytes,
        high=None,
        place=replace(
            place,
            gpu=texts.get("gpu"),
            gpu_uuid=texts.get("uuid"),
            gpu_name=texts.get("name"),
        ),
        sampled=True,
        num_samples=_read_number(gpu, "looks"),
        since=texts.get("since"),
        until=texts.get("until"),
    )


def _read_number(gpu: Json, name: str) -> int:
    value = gpu.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        message = f"{name} of a GPU is {format_value(value)}; expected a whole number, 0 or more"
        raise MeasuredFormatError(message)
    return value


def _iter_rank_readings(rank: Json, place: Place) -> Iterator[Reading]:
    stats = rank.get("memory_stats")
    if not isinstance(stats, Mapping):
        message = "a rank has no memory_stats; expected torch.cuda.memory_stats()"
        raise MeasuredFormatError(message)
    gpu_name = rank.get("gpu")
    for reading in parse_memory_stats(stats).readings:
        yield Reading(
            quantity=reading.quantity,
            value=reading.value,
            low=reading.low,
            high=reading.high,
            place=Place(
                job=place.job,
                host=place.host,
                rank=str(rank.get("rank")),
                gpu_name=gpu_name if isinstance(gpu_name, str) else None,
            ),
            job_gpus=_count_ranks([rank]),
        )


def _merge_releases(ranks: Iterable[Json]) -> dict[str, str]:
    """Return the releases that a job ran, the first rank's."""
    first: Json = next(iter(ranks), {})
    return {
        name: value for name in _RELEASES if isinstance(value := first.get(name), str) and value
    }


def _iter_notes(facts: Mapping[str, str]) -> Iterator[str]:
    host_bytes = facts.get("host_peak_bytes", "")
    if host_bytes.isdecimal():
        yield f"its processes had {int(host_bytes):,} bytes of host memory at the most there"


def _has_failed(rank: Json) -> bool:
    stats = rank.get("memory_stats")
    count = stats.get("num_ooms") if isinstance(stats, Mapping) else None
    return isinstance(count, int) and count > 0
