"""A traced peak on a terminal.

Bytes by kind, and the largest groups of tensors.
"""

from collections.abc import Iterator

from rich.console import RenderableType

from service.cli.http import Document
from service.cli.views.tables import add_title, make_table, show_bytes

_LARGEST = 8
"""Groups that are shown; the answer as JSON has more."""


def iter_peak_tables(result: Document) -> Iterator[RenderableType]:
    """Yield the tables of the deepest run followed by tensor.

    None where no run was followed tensor by tensor.
    """
    followed = [probe for probe in result["probes"] if probe.get("at_peak")]
    if not followed:
        return
    deepest = max(followed, key=lambda probe: probe["num_layers"])
    peak = deepest["at_peak"]
    title = (
        f"{show_bytes(peak['bytes'])} held by {deepest['num_layers']} layers at their peak, in "
        f"{peak['stretch']}"
    )
    kinds = sorted(peak["by_kind"].items(), key=lambda item: -item[1])
    parts = (
        (kind.replace("_", " "), show_bytes(value), f"{value / peak['bytes']:.1%}")
        for kind, value in kinds
    )
    yield add_title(
        title, make_table(("kind", "allocated", "share"), parts, right=("allocated", "share"))
    )
    columns = ("largest tensors", "made in", "shape", "allocated")
    yield make_table(
        columns, (_format_row(group) for group in peak["largest"][:_LARGEST]), right=("allocated",)
    )


def _format_row(group: Document) -> tuple[str, ...]:
    many = f"{group['count']} x " if group["count"] > 1 else ""
    shape = " x ".join(map(str, group["shape"]))
    return (
        f"{many}{group['name']}",
        group["made_in"],
        f"{shape} {group['dtype']}",
        show_bytes(group["bytes"]),
    )
