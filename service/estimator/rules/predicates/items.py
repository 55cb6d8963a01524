"""Predicates of sequences that are an image, a video or audio."""

from service.estimator.memory.image_inputs import get_sequence_tokens
from service.estimator.model.recorded.inputs import InputKind
from service.estimator.model.recorded.items import count_items, get_reads
from service.estimator.rules.grammar.facts import Case

_FLAGS = {
    InputKind.IMAGE: 'inputs {"images": [{"width": W, "height": H}]} (--image WxH)',
    InputKind.VIDEO: (
        'inputs {"videos": [{"frames": F, "width": W, "height": H}]} (--video FxWxH)'
    ),
    InputKind.AUDIO: 'inputs {"audio": [{"seconds": S}]} (--audio S)',
}


def has_single_item(case: Case) -> bool:
    """Return whether a sequence is one item of the kind that the model reads.

    An image of one size need not be named.
    """
    reads = get_reads(case.model.tree)
    if reads is None:
        return True
    items = count_items(case.workload)
    return items == {reads.kind: 1} or not (items or reads.grows)


def explain_items(case: Case) -> str:
    """Return what a sequence of this model is."""
    reads = get_reads(case.model.tree)
    assert reads is not None  # noqa: S101 - its rule asks of such models
    return (
        f"{case.model.family} reads one {reads.kind} in each sequence, and no text: say "
        f"{_FLAGS[reads.kind]}, once"
    )


def has_needed_length(case: Case) -> bool:
    """Return whether a model that reads text is told how much."""
    images = case.model.tree.images
    is_single_image = images is not None and images.every_sequence and not images.contrasts
    inputs = case.workload.inputs
    is_told = inputs is None or not inputs.alone
    return is_told or is_single_image or get_reads(case.model.tree) is not None


def explain_needed_length(case: Case) -> str:
    """Return why a length is missing."""
    return (
        f"required and missing; {case.model.family} reads text, whose tokens it counts with those "
        "of inputs"
    )


def get_length_path(case: Case) -> str:
    """Return the field of the length."""
    return f"workload.{get_sequence_tokens(case.workload)[0]}"
