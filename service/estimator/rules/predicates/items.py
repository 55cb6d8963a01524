"""Predicates of sequences that are an image, a video or audio."""

from service.estimator.memory.image_inputs import get_sequence_tokens
from service.estimator.model.recorded.inputs import InputKind
from service.estimator.model.recorded.items import get_reads
from service.estimator.rules.grammar.facts import Case
from service.estimator.values.batches import Inputs

_FLAGS = {
    InputKind.IMAGE: 'inputs {"images": [{"width": W, "height": H}]} (--image WxH)',
    InputKind.VIDEO: (
        'inputs {"videos": [{"frames": F, "width": W, "height": H}]} (--video FxWxH)'
    ),
    InputKind.AUDIO: 'inputs {"audio": [{"seconds": S}]} (--audio S)',
}


def _count_kinds(inputs: Inputs | None) -> dict[InputKind, int]:
    """Return how many images, videos and stretches of audio a sequence has."""
    if inputs is None:
        return {}
    parts = {
        InputKind.IMAGE: sum(item.count for item in inputs.images),
        InputKind.VIDEO: sum(item.count for item in inputs.videos),
        InputKind.AUDIO: sum(item.count for item in inputs.audio),
    }
    return {kind: number for kind, number in parts.items() if number}


def has_single_item(case: Case) -> bool:
    """Return whether a sequence is a single item of its model.

    An image of one size need not be named.
    """
    reads = get_reads(case.model.tree)
    if reads is None:
        return True
    items = _count_kinds(case.workload.inputs)
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
