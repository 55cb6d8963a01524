"""An explanation on a terminal: what happened, why, the smallest change."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from shutil import get_terminal_size
from textwrap import wrap
from typing import Any

from service.cli.views.phrases import format_change
from service.estimator.values.units import format_bytes
from service.terminal.controls import spell_controls

Document = Mapping[str, Any]
_LABEL = 11
_MOST_CAUSES = 3
_MOST_CHANGES = 3
_MOST_REMEDIES = 3
_VERDICTS = {"fits": "fits", "tight": "is tight", "does_not_fit": "does not fit"}
_FITS = {True: " (would have fitted)", False: " (not enough by itself)", None: ""}
_AGREEMENTS = {
    "inside": "inside",
    "above": "more than predicted",
    "below": "less than predicted",
}
_PARTS = (
    ("allocated", "allocated"),
    ("unallocated", "reserved and unallocated"),
    ("outside", "outside of the allocator"),
    ("other_processes", "of other processes"),
    ("strangers", "of nobody that is named"),
)


def show_explanation(name: str, answer: Document) -> None:
    """Print an explanation in a few lines."""
    width = max(60, min(110, get_terminal_size().columns))
    lines = [*_iter_head(name, answer), *_iter_rows(answer)]
    for label, text in lines:
        indent = "" if label is None else " " * _LABEL
        first = "" if label is None else f"{label:<{_LABEL}}"
        sys.stdout.write(
            "\n".join(
                wrap(
                    spell_controls(text),
                    width=width,
                    initial_indent=first,
                    subsequent_indent=indent,
                    break_on_hyphens=False,
                    break_long_words=False,
                )
                or [""]
            )
            + "\n"
        )


def _iter_head(name: str, answer: Document) -> Iterator[tuple[str | None, str]]:
    line = "" if answer["line"] is None else f":{answer['line']}"
    where = [
        text
        for text, value in (
            (f"GPU {answer['gpu']}", answer["gpu"]),
            (f"rank {answer['rank']}", answer["rank"]),
            (f"{answer['speaker']} {answer['release']}", answer["release"]),
        )
        if value is not None
    ]
    place = f" ({', '.join(where)})" if where else ""
    yield None, f"{name}{line}: {answer['summary']}{place}"
    yield None, ""
    parts = [
        f"{format_bytes(span['bytes'])} {word}"
        for key, word in _PARTS
        if (span := answer["balance"][key]) is not None and span["bytes"] > 0
    ]
    if parts:
        yield "GPU", ", ".join(parts)
    if (place_of := answer["place"]) is not None and place_of["instant"] is not None:
        yield "instant", f"{place_of['instant']}: {', '.join(place_of['terms'])}"


def _iter_rows(answer: Document) -> Iterator[tuple[str | None, str]]:
    causes = answer["causes"]
    for index, cause in enumerate(causes[:_MOST_CAUSES]):
        name = cause["name"].replace("_", " ")
        yield ("why" if index == 0 else "or"), f"{name} ({cause['certainty']}): {cause['why']}"
    yield from _iter_changes(answer["changes"], causes[0]["name"])
    if answer["prediction"] is not None:
        yield from _iter_prediction(answer["prediction"])
    if answer["num_failures"] > 1:
        yield "failures", f"{answer['num_failures']} are told; this one ended the run"
    for note in answer["notes"]:
        yield "note", note


def _iter_changes(changes: Sequence[Document], cause: str) -> Iterator[tuple[str, str]]:
    first = [change for change in changes if change["cause"] == cause]
    for index, change in enumerate((first or list(changes))[:_MOST_CHANGES]):
        label = "change" if index == 0 else "or"
        if change["setting"] is not None:
            yield label, change["setting"]
            label = ""
        yield label, f"{change['action']}{_FITS[change['fits']]}"


def _iter_prediction(prediction: Document) -> Iterator[tuple[str, str]]:
    fit = prediction["fit"]
    for tensor in prediction["tensors"]:
        size = format_bytes(tensor["bytes"])
        yield "requested", f"{tensor['name']}: {tensor['formula']} = {size}"
    per_gpu = fit["per_gpu"]
    yield (
        "predicted",
        (
            f"{_VERDICTS[fit['verdict']]}: {format_bytes(per_gpu['device_bytes'])} per GPU at "
            f"{per_gpu['peak_instant']}, of {format_bytes(fit['usable_bytes'])}"
        ),
    )
    for comparison in prediction["comparisons"]:
        yield "", _format_comparison(comparison)
    for note in prediction["notes"]:
        yield "note", note
    for index, remedy in enumerate(sorted(fit["remedies"], key=_rank_remedy)[:_MOST_REMEDIES]):
        text = f"{format_change(remedy['change'])}: {remedy['verdict'].replace('_', ' ')}"
        yield ("remedy" if index == 0 else "or"), text


def _rank_remedy(remedy: Document) -> tuple[bool, bool, bool, int]:
    """Return a key: this GPU, alike in result, few changes first."""
    change = remedy["change"]
    return remedy["verdict"] != "fits", "gpu" in change, bool(remedy["effects"]), len(change)


def _format_comparison(comparison: Document) -> str:
    quantity, low, high = comparison["quantity"], comparison["low"], comparison["high"]
    show = format_bytes if "_bytes" in quantity else _format_count
    name = quantity.removesuffix("_bytes").replace("_", " ")
    bound = "at least " if comparison["is_lower_bound"] else ""
    ends = "" if low == high else f", {show(low)} to {show(high)}"
    return (
        f"{name}: read {bound}{show(comparison['value'])}, predicted "
        f"{show(comparison['predicted'])}{ends}: {_format_agreement(comparison)}"
    )


def _format_agreement(comparison: Document) -> str:
    if comparison["is_lower_bound"] and comparison["agreement"] == "below":
        return "no contradiction, it failed before its peak"
    return _AGREEMENTS[comparison["agreement"]]


def _format_count(number: float) -> str:
    return f"{number:,.0f}"
