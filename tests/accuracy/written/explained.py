"""Differences between a recording and its written family that stay, each with its reason."""

from dataclasses import dataclass

from tests.accuracy.written.rows import Row

_ENCODERS = ("bert", "camembert", "distilbert", "electra", "roberta", "xlm-roberta")


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """A difference at some instants of some types, and the most bytes that it has."""

    types: tuple[str, ...]
    instants: tuple[str, ...]
    most_bytes: int
    reason: str


EXPLAINED = (
    Explained(
        types=_ENCODERS,
        instants=("forward",),
        most_bytes=399_360,
        reason="the layer before the head counts as forward in a recording, as loss where it is "
        "written and traced; the step's peak is equal",
    ),
)


def find_reason(row: Row) -> str | None:
    """Return why a row's answers differ, None where nothing explains all of it."""
    if row.recorded is None or row.written is None:
        return None
    recorded, written = row.recorded, row.written
    differing = {name for name in written if recorded[name] != written[name]}
    for part in EXPLAINED:
        if (
            row.model_type in part.types
            and differing <= set(part.instants)
            and abs(row.difference) <= part.most_bytes
        ):
            return part.reason
    return None
