"""Differences between a recording and its written family that stay, each with its reason."""

from dataclasses import dataclass

from tests.accuracy.written.rows import Row

_ENCODERS = ("bert", "camembert", "distilbert", "electra", "modernbert", "roberta", "xlm-roberta")


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
    Explained(
        types=("vit",),
        instants=("forward",),
        most_bytes=164,
        reason="the scores of an image's classes count as forward in a recording, as loss where "
        "they are written and traced; the step's peak is equal",
    ),
    Explained(
        types=("bloom",),
        instants=("forward",),
        most_bytes=16,
        reason="the written family leaves out a tensor of an element for each head, which a trace "
        "has too, at an instant that does not decide; the step's peak is equal",
    ),
    Explained(
        types=("phimoe",),
        instants=("forward", "loss", "backward"),
        most_bytes=18_432,
        reason="a recording loses the chosen experts, 8 bytes a token and layer, that the "
        "router's own autograd function keeps: the family is right",
    ),
    Explained(
        types=("deepseek_v3",),
        instants=("load", "forward", "loss", "backward", "optimizer_step"),
        most_bytes=16,
        reason="a checkpoint's loading keeps the bias of a router's scores in fp32 "
        "(`_keep_in_fp32_modules_strict`), as it is written; a model that is built in bfloat16, "
        "to be recorded or traced, has all of it in that",
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
