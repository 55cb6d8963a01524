"""Byte units and exact integer arithmetic.

It is the only place that defines a GiB.
"""

from service.estimator.values.memo import keep_latest

KIB = 1024
MIB = 1024**2
GIB = 1024**3


def ceil_div(numerator: int, denominator: int) -> int:
    """Return numerator / denominator rounded up, exactly."""
    return -(-numerator // denominator)


def format_bytes(num_bytes: float) -> str:
    """Return bytes in binary units, such as ``11.74 GiB``."""
    magnitude = abs(num_bytes)
    for unit, size in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if magnitude >= size:
            return f"{num_bytes / size:,.2f} {unit}"
    return f"{num_bytes:,.0f} B"


@keep_latest(1024)
def format_count(count: float) -> str:
    """Return a count in decimal steps, such as ``6.738e9``."""
    return f"{count:.4g}".replace("e+0", "e").replace("e+", "e")
