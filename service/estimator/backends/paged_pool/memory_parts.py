"""Parts of a rank's memory, by ledger and certainty."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from service.estimator.values.result import Basis, Component


class MemoryLedger(StrEnum):
    """Ledger in which a part is counted.

    PyTorch's allocator counts it as allocated or as reserved, or the driver alone counts it.
    """

    ALLOCATED = "allocated"
    RESERVED = "reserved"
    DEVICE = "device"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPart:
    """One part of a rank's memory with its 95 % interval.

    ``budgeted`` parts lie inside of the engine's budget, ``persistent`` ones stay between steps.
    """

    name: str
    bytes: int
    low: int
    high: int
    ledger: MemoryLedger
    basis: Basis
    formula: str
    source: str
    budgeted: bool = True
    persistent: bool = False


def make_exact_part(
    name: str, size: int, formula: str, source: str, *, persistent: bool = False
) -> MemoryPart:
    """Return a part of tensors whose shapes are known."""
    return MemoryPart(
        name=name,
        bytes=size,
        low=size,
        high=size,
        ledger=MemoryLedger.ALLOCATED,
        basis=Basis.EXACT,
        formula=formula,
        source=source,
        persistent=persistent,
    )


def sum_allocated_parts(parts: Sequence[MemoryPart]) -> dict[str, int]:
    """Return the allocated bytes by component.

    PyTorch's allocator or the engine's own holds them.
    """
    totals: dict[str, int] = {}
    for part in parts:
        if part.ledger is MemoryLedger.ALLOCATED:
            totals[part.name] = totals.get(part.name, 0) + part.bytes
    return totals


def merge_components(parts: Sequence[MemoryPart]) -> tuple[Component, ...]:
    """Return the parts as components.

    Parts of one name are one component.
    """
    components: dict[str, Component] = {}
    for part in parts:
        if part.bytes:
            merged = components.get(part.name)
            components[part.name] = (
                _make_component(part) if merged is None else _add_part(merged, part)
            )
    return tuple(components.values())


def _make_component(part: MemoryPart) -> Component:
    return Component(part.name, part.bytes, part.basis, part.formula, part.source)


def _add_part(component: Component, part: MemoryPart) -> Component:
    formula, source = f"{component.formula} + {part.formula}", f"{component.source}; {part.source}"
    return Component(component.name, component.bytes + part.bytes, component.basis, formula, source)
