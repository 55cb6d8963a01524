"""Changes of an import, as tables and lines."""

from collections.abc import Iterator

from service.cli.http import Document
from service.cli.views.tables import add_title, make_console, make_table

_SHOWN = 40
_LONGEST = 60


def show_import(answer: Document, *, verb: str | None = None) -> None:
    """Print what changes, what is unknown, and what is left out."""
    screen = make_console()
    screen.print(_summarize(answer, verb), soft_wrap=True, markup=False, highlight=False)
    if answer["changes"]:
        columns = ("", "pool", "node", "GPU", "what")
        rows = [_make_row(change) for change in answer["changes"][:_SHOWN]]
        screen.print(add_title("changes", make_table(columns, rows)))
    if (unseen := answer["num_changes"] - _SHOWN) > 0:
        screen.print(f"and {unseen} more; --json shows them", markup=False)
    for line in _iter_lines(answer):
        screen.print(line, soft_wrap=True, markup=False, highlight=False)


def _summarize(answer: Document, verb: str | None) -> str:
    done = "changed" if answer["applied"] else "would change"
    counts = ", ".join(
        f"{answer[f'num_{word}']} {word}"
        for word in ("added", "removed", "changed")
        if answer[f"num_{word}"]
    )
    after = answer["after"]
    size = f"{after['nodes']} nodes, {after['gpus']} GPUs, {after['free_gpus']} free"
    if not answer["num_changes"]:
        return f"{answer['cluster']} is as {answer['source']} has it: {size}"
    return f"{verb or done}: {counts or 'pools alone'} nodes by {answer['source']}; then {size}"


def _make_row(change: Document) -> tuple[str, ...]:
    fields = ", ".join(
        f"{field['name']} {_shorten(field['before'])} → {_shorten(field['after'])}"
        for field in change["fields"]
    )
    return (change["kind"], change["pool"], change["node"] or "", change["gpu"], fields)


def _shorten(value: object) -> str:
    if value is None or value == []:
        return "none"
    if isinstance(value, list):
        holders = [item["holder"] for item in value if isinstance(item, dict) and "holder" in item]
        text = ", ".join(holders or [str(item) for item in value])
    else:
        text = str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _iter_lines(answer: Document) -> Iterator[str]:
    for gpu in answer["unknown_gpus"]:
        memory = gpu["memory_bytes"]
        size = "of unknown memory" if memory is None else f"with {memory / 2**30:.1f} GiB"
        names = " or ".join(gpu["candidates"])
        hint = f": --gpu {gpu['name']}={names}" if names else ""
        count = f"{gpu['num_gpus']} on {gpu['num_nodes']} nodes"
        yield f"unknown GPU {gpu['name']} {size}, {count}{hint}"
    for part in answer["left_out"]:
        yield f"left out: {part['what']}: {part['reason']}"
    for warning in answer["warnings"]:
        yield f"warning: {warning}"
