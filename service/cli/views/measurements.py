"""Measurements on a terminal.

Rows, one of them, and what a file would store.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from service.cli.http import Document
from service.cli.views.artifacts import describe_artifacts
from service.cli.views.tables import add_title, make_console, make_table, show_bytes

_COLUMNS = ("id", "from", "of", "quantity", "measured", "predicted", "error", "after")
_NUMBERS = ("measured", "predicted", "error", "after", "calibrated")
_HEADLINES = ("allocated", "reserved", "device", "kv_pool", "weight")


def show_rows(rows: list[Document], *, has_more: bool) -> None:
    """Print rows of measurements.

    Of each the first quantity that was measured, with its error before and after calibration.
    """
    screen = make_console()
    rows_table = make_table(_COLUMNS, (_format_row(row) for row in rows), right=_NUMBERS)
    # An id or a number that is broken over lines cannot be copied.
    for column in rows_table.columns:
        column.no_wrap = column.header != "of"
    screen.print(rows_table)
    if has_more:
        screen.print(f"the first {len(rows)}; `headroom measurements export` writes all of them")


def show_measurement(measurement: Document) -> None:
    """Print one measurement."""
    screen = make_console()
    model = measurement["model"] or "an inline model"
    screen.print(
        f"measurement {measurement['id']} {measurement['status']}: {model} on "
        f"{measurement['gpu'] or measurement['device']}, {measurement['source']}"
    )
    if measurement["problem"] is not None:
        screen.print(measurement["problem"]["detail"])
    if measurement["peaks"] is None:
        return
    screen.print(
        add_title(
            "peaks",
            make_table(
                ("quantity", "measured", "predicted", "error", "calibrated"),
                _iter_peaks(measurement),
                right=_NUMBERS,
            ),
        ),
    )
    if measurement["environment"]:
        screen.print(
            ", ".join(
                f"{name} {value}"
                for name, value in measurement["environment"].items()
                if value is not None
            ),
        )
    for line in (*measurement["notes"], *describe_artifacts(measurement)):
        screen.print(line)


def show_import(name: str, answer: Document) -> None:
    """Print the result of an import.

    What the file holds, what was left out, and what became of it.
    """
    screen = make_console()
    columns = ("job", "status", "GPU", "quantity", "measured", "predicted", "error", "calibrated")
    rows = [line for item in answer["items"] for line in _iter_item_rows(item)]
    screen.print(
        add_title(f"{name}: {answer['format']}", make_table(columns, rows, right=_NUMBERS))
    )
    for item in answer["items"]:
        for problem in item["problems"]:
            screen.print(f"refused, {item['job'] or 'the file'}: {problem}")
        for note in item["notes"]:
            screen.print(f"{item['job'] or 'the file'}: {note}")
    for part in answer["left_out"]:
        place = "" if part["line"] is None else f"line {part['line']}: "
        screen.print(f"left out, {place}{part['what']}: {part['reason']}")
    hidden = answer["num_left_out"] - len(answer["left_out"])
    if hidden:
        screen.print(f"left out: {hidden} more")
    screen.print(_describe_outcome(answer))


def _describe_outcome(answer: Document) -> str:
    count = len(answer["items"])
    if not count:
        return "nothing was stored: nothing of the job that you say was found in it"
    if not answer["dry_run"]:
        num_known = sum(item["status"] == "known" for item in answer["items"])
        return f"stored {answer['num_stored']}" + "".join(
            (
                f", {num_known} stored before" if num_known else "",
                _describe_approval(answer["items"]),
            )
        )
    num_new = sum(item["status"] == "new" for item in answer["items"])
    if num_new < count:
        return f"nothing was stored: {num_new} of {count} would be"
    return f"nothing was stored: {num_new} would be, with --yes"


def _describe_approval(items: Sequence[Document]) -> str:
    """Return how many of what was stored wait for an operator."""
    states = [item.get("approval") for item in items if item["status"] == "stored"]
    num_held = states.count("held")
    if not num_held and "pending" not in states:
        return ""
    apart = f" ({num_held} held apart, far from the answer)" if num_held else ""
    return f"; {states.count('pending') + num_held} teach once an operator approves them{apart}"


def _iter_item_rows(item: Document) -> Iterator[tuple[str, ...]]:
    head = (item["job"] or "-", item["status"], item["gpu"] or "-")
    for line in _iter_compared(item):
        yield (*head, *line)
        head = ("", "", "")


def _iter_compared(item: Document) -> Iterator[tuple[str, ...]]:
    """Yield every measured quantity with its prediction."""
    prediction = item["prediction"] or {}
    predictions = {entry["quantity"]: entry for entry in prediction.get("quantities", ())}
    for quantity, measured in _iter_measured(item["peaks"]):
        entry = predictions.get(quantity, {})
        yield (
            quantity.removesuffix("_bytes"),
            _format_value(quantity, measured),
            _format_value(quantity, entry.get("predicted")),
            _format_share(entry.get("error")),
            _format_share(entry.get("calibrated_error")),
        )


def _iter_peaks(measurement: Document) -> Iterator[tuple[str, ...]]:
    prediction = measurement["prediction"] or {}
    if prediction.get("quantities"):
        yield from _iter_compared(measurement)
        return
    for quantity, measured in _iter_measured(measurement["peaks"]):
        predicted = prediction if quantity == "allocated_bytes" else {}
        cells = (
            _format_value(quantity, measured),
            _format_value(quantity, predicted.get("allocated_bytes")),
            _format_share(predicted.get("error")),
        )
        yield (quantity.removesuffix("_bytes"), *cells, "-")


def _iter_measured(peaks: Document) -> Iterator[tuple[str, int]]:
    numbers = {**peaks, **(peaks.get("engine") or {})}
    yield from (
        (name, value)
        for name, value in numbers.items()
        if isinstance(value, int) and not isinstance(value, bool)
    )


def _format_row(row: Document) -> tuple[str, ...]:
    quantity = next((name for name in _HEADLINES if row[f"{name}_bytes"] is not None), "allocated")
    return (
        row["id"],
        row["device"] if row["source"] == "probe" else row["source"],
        " on ".join(name for name in (row["model"] or "an inline model", row["gpu"]) if name),
        quantity if row["status"] == "succeeded" else row["status"],
        show_bytes(row[f"{quantity}_bytes"]),
        show_bytes(row[f"predicted_{quantity}_bytes"]),
        _format_share(row[f"{quantity}_error"]),
        _format_share(row.get(f"calibrated_{quantity}_error")),
    )


def _format_value(quantity: str, value: Any) -> str:  # noqa: ANN401 - a number of the answer, or none
    return (
        show_bytes(value) if quantity.endswith("_bytes") else "-" if value is None else f"{value:,}"
    )


def _format_share(value: Any) -> str:  # noqa: ANN401 - a number of the answer, or none
    return "-" if value is None else f"{value:+.1%}"
