"""Measurements on a terminal: rows, one of them, and what a file would store."""

from collections.abc import Iterator
from typing import Any

from service.cli.http import Document
from service.cli.views.artifacts import kept_words
from service.cli.views.tables import console, show_bytes, table, titled

_COLUMNS = ("id", "from", "of", "quantity", "measured", "predicted", "error", "after")
_NUMBERS = ("measured", "predicted", "error", "after", "calibrated")
_HEADLINES = ("allocated", "reserved", "device", "kv_pool", "weight")


def show_rows(rows: list[Document], *, more: bool) -> None:
    """Print rows of a table: of each the first quantity that was measured, with its error before and after calibration."""
    screen = console()
    made = table(_COLUMNS, (_row(row) for row in rows), right=_NUMBERS)
    # An id or a number that is broken over lines cannot be copied.
    for column in made.columns:
        column.no_wrap = column.header != "of"
    screen.print(made)
    if more:
        screen.print(f"the first {len(rows)}; `headroom measurements export` writes all of them")


def show_measurement(found: Document) -> None:
    """Print one measurement."""
    screen = console()
    model = found["model"] or "an inline model"
    screen.print(
        f"measurement {found['id']} {found['status']}: {model} on {found['gpu'] or found['device']}, {found['source']}"
    )
    if found["problem"] is not None:
        screen.print(found["problem"]["detail"])
    if found["peaks"] is None:
        return
    screen.print(
        titled("peaks", table(("quantity", "measured", "predicted", "error", "calibrated"), _peaks(found), right=_NUMBERS))
    )
    if found["environment"]:
        screen.print(", ".join(f"{name} {value}" for name, value in found["environment"].items() if value is not None))
    for line in (*found["notes"], *kept_words(found)):
        screen.print(line)


def show_import(name: str, answer: Document) -> None:
    """Print what a file holds, what was left out, and what became of it."""
    screen = console()
    columns = ("job", "status", "GPU", "quantity", "measured", "predicted", "error", "calibrated")
    rows = [line for item in answer["items"] for line in _item(item)]
    screen.print(titled(f"{name}: {answer['format']}", table(columns, rows, right=_NUMBERS)))
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
    screen.print(_conclusion(answer))


def _conclusion(answer: Document) -> str:
    count = len(answer["items"])
    if not count:
        return "nothing was stored: nothing of the job that you say was found in it"
    if not answer["dry_run"]:
        known = sum(item["status"] == "known" for item in answer["items"])
        return f"stored {answer['num_stored']}" + (f", {known} stored before" if known else "")
    new = sum(item["status"] == "new" for item in answer["items"])
    if new < count:
        return f"nothing was stored: {new} of {count} would be"
    return f"nothing was stored: {new} would be, with --yes"


def _item(item: Document) -> Iterator[tuple[str, ...]]:
    head = (item["job"] or "-", item["status"], item["gpu"] or "-")
    for line in _compared(item):
        yield (*head, *line)
        head = ("", "", "")


def _compared(item: Document) -> Iterator[tuple[str, ...]]:
    """Yield every quantity of a measurement beside what was predicted of it."""
    prediction = item["prediction"] or {}
    known = {one["quantity"]: one for one in prediction.get("quantities", ())}
    for quantity, measured in _measured(item["peaks"]):
        one = known.get(quantity, {})
        yield (
            quantity.removesuffix("_bytes"),
            _show(quantity, measured),
            _show(quantity, one.get("predicted")),
            _share(one.get("error")),
            _share(one.get("calibrated_error")),
        )


def _peaks(found: Document) -> Iterator[tuple[str, ...]]:
    prediction = found["prediction"] or {}
    if prediction.get("quantities"):
        yield from _compared(found)
        return
    for quantity, measured in _measured(found["peaks"]):
        predicted = prediction if quantity == "allocated_bytes" else {}
        shown = (_show(quantity, measured), _show(quantity, predicted.get("allocated_bytes")), _share(predicted.get("error")))
        yield (quantity.removesuffix("_bytes"), *shown, "-")


def _measured(peaks: Document) -> Iterator[tuple[str, int]]:
    numbers = {**peaks, **(peaks.get("engine") or {})}
    yield from ((name, value) for name, value in numbers.items() if isinstance(value, int) and not isinstance(value, bool))


def _row(row: Document) -> tuple[str, ...]:
    quantity = next((name for name in _HEADLINES if row[f"{name}_bytes"] is not None), "allocated")
    return (
        row["id"],
        row["device"] if row["source"] == "probe" else row["source"],
        " on ".join(name for name in (row["model"] or "an inline model", row["gpu"]) if name),
        quantity if row["status"] == "succeeded" else row["status"],
        show_bytes(row[f"{quantity}_bytes"]),
        show_bytes(row[f"predicted_{quantity}_bytes"]),
        _share(row[f"{quantity}_error"]),
        _share(row.get(f"calibrated_{quantity}_error")),
    )


def _show(quantity: str, value: Any) -> str:  # noqa: ANN401 - a number of the answer, or none
    return show_bytes(value) if quantity.endswith("_bytes") else "-" if value is None else f"{value:,}"


def _share(value: Any) -> str:  # noqa: ANN401 - a number of the answer, or none
    return "-" if value is None else f"{value:+.1%}"
