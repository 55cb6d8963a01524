"""Samples of listings, read from files."""

from pathlib import Path

from service.formats.inventories.detect import ReadingOptions, read_inventory
from service.formats.inventories.observed import ObservedInventory, ObservedNode

_SAMPLES = Path(__file__).with_name("samples")


def load_text(name: str) -> str:
    """Return a sample as text."""
    return (_SAMPLES / name).read_text(encoding="utf-8")


def read_samples(*names: str, node: str | None = None, tolerated: str = "") -> ObservedInventory:
    """Return what some samples of one moment show."""
    options = ReadingOptions(node=node, tolerated=frozenset(tolerated.split()))
    return read_inventory([load_text(name) for name in names], options=options)


def index_nodes(inventory: ObservedInventory) -> dict[str, ObservedNode]:
    """Return the nodes by name."""
    return {node.name: node for node in inventory.nodes}
