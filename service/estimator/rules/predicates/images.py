"""Predicates of images in a sequence."""

from service.estimator.memory.image_inputs import get_sequence_tokens, resolve_images
from service.estimator.processors.processor import read_processor
from service.estimator.processors.types import TYPES
from service.estimator.rules.grammar.facts import Case


def asks_for_images(case: Case) -> bool:
    """Return whether a sequence has images, or always has one."""
    images, workload = case.model.tree.images, case.workload
    if images is None:
        return False
    named = (workload.num_images, workload.image_tokens, workload.inputs)
    return images.every_sequence or named != (None, None, None)


def reads_images(case: Case) -> bool:
    """Return whether the images of a model have a term."""
    images = case.model.tree.images
    return images is None or not images.unread


def reads_one_image(case: Case) -> bool:
    """Return whether a model of one image per sequence gets one."""
    images = case.model.tree.images
    if images is None or not images.every_sequence:
        return True
    inputs = case.workload.inputs
    return inputs.num_images == 1 if inputs is not None else case.workload.num_images in {None, 1}


def sees_one_kind(case: Case) -> bool:
    """Return whether a sequence has no videos beside its images."""
    inputs = case.workload.inputs
    return inputs is None or not (inputs.images and inputs.videos)


def sizes_images(case: Case) -> bool:
    """Return whether image tokens are given where a size decides."""
    images = case.model.tree.images
    if images is None or images.tokens is not None:
        return True
    return case.workload.image_tokens is not None or case.workload.inputs is not None


def keeps_image_size(case: Case) -> bool:
    """Return whether image tokens are the model's own number."""
    images = case.model.tree.images
    tokens = None if images is None else images.tokens
    return tokens is None or case.workload.image_tokens in {None, tokens}


def has_room_for_images(case: Case) -> bool:
    """Return whether a sequence has room for its images."""
    images = resolve_images(case.model.tree, case.workload)
    own = case.model.tree.images
    if images is None or own is None or own.every_sequence:
        return True
    _, room = get_sequence_tokens(case.workload)
    return images.sequence_tokens <= room


def explain_text_alone(case: Case) -> str:
    """Return that inputs have no term, and the tokens that they take.

    Those are by the processor of the type's checkpoints, where its rules are known.
    """
    inputs, family = case.workload.inputs, case.model.family
    name, _ = get_sequence_tokens(case.workload)
    tokens = "tokens"
    if inputs is not None and family in TYPES:
        items = read_processor({"model_type": family}).count_items(inputs)
        number = sum(counted.count * counted.item.tokens for counted in items)
        tokens = f"{number} tokens, by the processor of that type's checkpoints,"
    return (
        f"{family} is answered for text alone here: leave inputs out, and count their {tokens} in "
        f"{name}"
    )


def explain_image_room(case: Case) -> str:
    """Return how much of a sequence its images take."""
    images = resolve_images(case.model.tree, case.workload)
    assert images is not None  # noqa: S101 - what has no room
    name, room = get_sequence_tokens(case.workload)
    needed = images.sequence_tokens
    if case.workload.inputs is not None:
        message = f"inputs take {needed} tokens of a sequence"
    else:
        message = (
            f"num_images {images.per_sequence} of {images.tokens} tokens each take {needed} of a "
            "sequence"
        )
    return f"{message}, but {name} is {room}, which counts them: say {needed} or more"
