"""Kubernetes quantities: ``81559Mi``, ``1056270132Ki``, ``8``, ``96G``."""

import re
from decimal import Decimal

_QUANTITY = re.compile(
    r"(?P<number>[0-9]{1,30}(?:\.[0-9]{1,9})?)(?P<unit>[KMGTPE]i|[kMGTPE]|m)?", re.ASCII
)
_BINARY = {f"{prefix}i": 1024**power for power, prefix in enumerate("KMGTPE", start=1)}
_DECIMAL = {prefix: 1000**power for power, prefix in enumerate("kMGTPE", start=1)}
_LARGEST = 2**63 - 1


def read_quantity(value: object) -> int | None:
    """Return a quantity rounded down, None where it is none."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value if 0 <= value <= _LARGEST else None
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    unit = match["unit"]
    scale = Decimal("0.001") if unit == "m" else Decimal({**_BINARY, **_DECIMAL}.get(unit, 1))
    amount = int(Decimal(match["number"]) * scale)
    return amount if amount <= _LARGEST else None
