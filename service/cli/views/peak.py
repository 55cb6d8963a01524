"""What filled a traced peak, on a terminal: bytes by kind, and the largest groups of tensors."""

from collections.abc import Iterator

from rich.console import RenderableType

from service.cli.http import Document
from service.cli.views.tables import show_bytes, table, titled

_LARGEST = 8
"""Groups that are shown; the answer as JSON has more."""


def held(result: Document) -> Iterator[RenderableType]:
    """Yield the tables of the deepest run that was followed tensor by tensor, none where no run was."""
    followed = [probe for probe in result["probes"] if probe.get("at_peak")]
    if not followed:
        return
    deepest = max(followed, key=lambda probe: probe["num_layers"])
    peak = deepest["at_peak"]
    title = f"{show_bytes(peak['bytes'])} held by {deepest['num_layers']} layers at their peak, in {peak['stretch']}"
    kinds = sorted(peak["by_kind"].items(), key=lambda item: -item[1])
    parts = ((kind.replace("_", " "), show_bytes(value), f"{value / peak['bytes']:.1%}") for kind, value in kinds)
    yield titled(title, table(("kind", "allocated", "share"), parts, right=("allocated", "share")))
    columns = ("largest tensors", "made in", "shape", "allocated")
    yield table(columns, (_row(group) for group in peak["largest"][:_LARGEST]), right=("allocated",))


def _row(group: Document) -> tuple[str, ...]:
    many = f"{group['count']} x " if group["count"] > 1 else ""
    shape = " x ".join(map(str, group["shape"]))
    return f"{many}{group['name']}", group["made_in"], f"{shape} {group['dtype']}", show_bytes(group["bytes"])
