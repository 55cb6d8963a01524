"""SGLang's start-up log: weights, the pool and the CUDA graphs.

Wordings of 0.3 to 0.5.6 and later (python/sglang/srt/model_executor/model_runner.py,
mem_cache/memory_pool.py, managers/scheduler.py). What it calls "GB" it divides by 2^30 (srt/utils:
get_available_gpu_memory; memory_pool: GB).
"""

import re
from collections.abc import Iterable, Mapping

from service.formats.measured.engines import (
    OUT_OF_MEMORY,
    Line,
    find_settings,
    iter_ranked_lines,
    make_gib_reading,
    make_token_reading,
)
from service.formats.measured.reading import (
    Format,
    LeftOut,
    MeasuredFormatError,
    Parsed,
    Place,
    Quantity,
    Reading,
)

_RANK = re.compile(r"^\[[0-9: -]{10,23} ((?:[A-Z]{2}[0-9]+ ?)+)\]|\[(gpu(?:_id)?=[0-9]+)\]")
_NUMBER = r"(-?+[0-9.]{1,20}+) GB"
_WEIGHTS = re.compile(rf"Load weight end\..{{0,400}}?mem usage={_NUMBER}")
_POOL = re.compile(
    rf"KV Cache is allocated\..{{0,80}}?#tokens: ([0-9]{{1,15}}), (?:K size: {_NUMBER}, V size: {_NUMBER}|KV size: {_NUMBER})"  # noqa: E501
)
_TOKENS = re.compile(r"\bmax_total_num_tokens=([0-9]{1,15})\b")
_GRAPHS = re.compile(
    rf"Capture (?:target decode |target verify )?(?:cuda|CUDA) graph end\..{{0,120}}?mem usage={_NUMBER}"  # noqa: E501
)
_SETTINGS: Mapping[str, re.Pattern[str]] = {
    "model": re.compile(r"\bmodel_path='([^']{1,300})'"),
    "tensor_parallel": re.compile(r"\btp_size=([0-9]{1,5})\b"),
    "pipeline_parallel": re.compile(r"\bpp_size=([0-9]{1,5})\b"),
    "gpu_memory_fraction": re.compile(r"\bmem_fraction_static=(0\.[0-9]{1,6})\b"),
    "max_model_len": re.compile(r"\bcontext_len=([0-9]{1,9})\b"),
}
_COUNTS = ("tensor_parallel", "pipeline_parallel", "max_model_len")


def parse_sglang(text: str) -> Parsed:
    """Return the readings of every rank of one SGLang start.

    A draft model's readings, which come second, are left out.
    """
    lines = list(iter_ranked_lines(text, _RANK))
    readings: dict[tuple[Quantity, str | None], Reading] = {}
    left_out: list[LeftOut] = []
    for line in lines:
        for part in _read_line(line):
            if isinstance(part, LeftOut):
                left_out.append(part)
            elif (key := (part.quantity, part.place.rank)) not in readings:
                readings[key] = part
            elif part.quantity is not Quantity.KV_POOL_TOKENS:
                reason = "the second of its kind on this rank: that of a draft model"
                left_out.append(
                    LeftOut(
                        what=f"{part.quantity.value} {part.value:,}", reason=reason, line=part.line
                    ),
                )
    if not readings:
        message = (
            "no line says what the weights or the cache took; expected SGLang's start-up log, "
            'with lines such as "Load weight end. … mem usage=15.11 GB." and '
            '"max_total_num_tokens=442750"'
        )
        raise MeasuredFormatError(message)
    settings = _read_settings(lines)
    return Parsed(
        format=Format.SGLANG,
        readings=tuple(readings.values()),
        left_out=tuple(left_out),
        environment={"engine": "sglang"}
        | ({"model": settings["model"]} if "model" in settings else {}),
        settings=_convert_settings(settings),
        out_of_memory=any(OUT_OF_MEMORY.search(line.text) for line in lines),
    )


def _read_line(line: Line) -> Iterable[Reading | LeftOut]:
    if (match := _WEIGHTS.search(line.text)) is not None:
        yield _make_amount(match[1], Quantity.WEIGHTS, line)
    if (match := _POOL.search(line.text)) is not None:
        yield make_token_reading(int(match[1]), line)
        yield _sum_parts(
            [
                make_gib_reading(part, Quantity.KV_POOL, line)
                for part in match.groups()[1:]
                if part and not part.startswith("-")
            ],
        )
    if (match := _TOKENS.search(line.text)) is not None:
        yield make_token_reading(int(match[1]), line)
    if (match := _GRAPHS.search(line.text)) is not None:
        yield _make_amount(match[1], Quantity.CUDA_GRAPHS, line)


def _make_amount(text: str, quantity: Quantity, line: Line) -> Reading | LeftOut:
    if text.startswith("-"):
        reason = "less than nothing was counted: others gave memory back meanwhile"
        return LeftOut(what=f"{quantity.value} {text} GB", reason=reason, line=line.number)
    return make_gib_reading(text, quantity, line)


def _sum_parts(parts: list[Reading]) -> Reading | LeftOut:
    """Return keys and values of a pool as one amount."""
    if not parts:
        return LeftOut(what=Quantity.KV_POOL.value, reason="less than nothing was counted")
    first = parts[0]
    return Reading(
        quantity=first.quantity,
        value=sum(part.value for part in parts),
        low=sum(part.low for part in parts),
        high=sum(part.high or part.value for part in parts),
        place=Place(rank=first.place.rank),
        line=first.line,
    )


def _read_settings(lines: Iterable[Line]) -> dict[str, str]:
    settings: dict[str, str] = {}
    for line in lines:
        if "=" in line.text:
            settings |= find_settings(line.text, _SETTINGS)
    return settings


def _convert_settings(settings: Mapping[str, str]) -> dict[str, str | int | float | bool]:
    converted: dict[str, str | int | float | bool] = {
        name: int(settings[name]) for name in _COUNTS if name in settings
    }
    if "gpu_memory_fraction" in settings:
        converted["gpu_memory_fraction"] = float(settings["gpu_memory_fraction"])
    return converted
