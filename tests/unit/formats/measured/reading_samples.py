"""Samples of files of the field, and short ways to say what was read from them."""

from pathlib import Path

from service.formats.measured.detect import parse
from service.formats.measured.reading import Format, Parsed, Quantity

SAMPLES = Path(__file__).with_name("samples")


def sample(name: str) -> bytes:
    """Return a sample."""
    return (SAMPLES / name).read_bytes()


def read(name: str, *, declared: Format | None = None) -> Parsed:
    """Return what a sample holds."""
    return parse(sample(name), declared=declared)


def values(parsed: Parsed) -> dict[Quantity, int]:
    """Return the value of each quantity; there must be one reading of each."""
    found = {reading.quantity: reading.value for reading in parsed.readings}
    assert len(found) == len(parsed.readings)
    return found
