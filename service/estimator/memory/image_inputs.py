"""Images of a request."""

from dataclasses import replace
from typing import TypeVar

from service.estimator.model.architecture import Architecture
from service.estimator.model.images import Images
from service.estimator.model.recorded.items import get_reads
from service.estimator.model.recorded.narrowing import get_unread_names
from service.estimator.values.result import InputTokens
from service.estimator.values.workload import ServeWorkload, TrainWorkload, Workload

_Any = TypeVar("_Any", bound=Workload)


def resolve_images(model: Architecture, workload: Workload) -> Images | None:
    """Return the images of each sequence.

    None for a model that takes none, and for a request that has none.
    """
    if model.images is None:
        return None
    sequences = (
        workload.num_sequences if isinstance(workload, ServeWorkload) else workload.micro_batch_size
    )
    return model.images.read(
        num_images=workload.num_images,
        image_tokens=workload.image_tokens,
        num_sequences=sequences,
        inputs=workload.inputs,
    )


def list_input_tokens(model: Architecture, workload: Workload) -> tuple[InputTokens, ...]:
    """Return what each item of a sequence becomes."""
    if model.images is None or workload.inputs is None:
        return ()
    return tuple(
        InputTokens(
            kind=counted.kind,
            count=counted.count,
            tokens=counted.item.tokens,
            features=counted.item.features,
            pieces=counted.item.pieces,
            positions=counted.item.positions,
        )
        for counted in model.images.processor.count_items(workload.inputs)
    )


def get_idle_names(model: Architecture, workload: TrainWorkload) -> frozenset[str]:
    """Return the names of the weights that get no gradient.

    They are a tower's without images, and those that nothing reads or trains.
    """
    if model.images is None:
        return model.never_trained | get_unread_names(model)
    return model.images.get_idle_names(resolve_images(model, workload))


def get_sequence_tokens(workload: Workload) -> tuple[str, int]:
    """Return the name and the number of a sequence's tokens."""
    if isinstance(workload, ServeWorkload):
        return "prompt_tokens", workload.prompt_tokens
    return "sequence_length", workload.sequence_length


def list_image_warnings(model: Architecture, workload: Workload) -> tuple[str, ...]:
    """Return warnings about missing images and ineffective lengths.

    A length has no effect where an image decides it.
    """
    if model.images is None:
        return ()
    if resolve_images(model, workload) is None:
        hint = "" if model.images.unread else "; inputs says which a sequence has"
        return (f"no images: the image tower of {model.family} is loaded and idle{hint}",)
    name, length = get_sequence_tokens(workload)
    positions = model.images.tokens
    is_alone = workload.inputs is not None and workload.inputs.alone
    unread = {positions, length} if is_alone else {positions}
    if model.images.every_sequence and not model.images.contrasts and length not in unread:
        return (
            (
                f"{name} {length} has no effect: an image of {model.family} takes {positions} "
                "positions"
            ),
        )
    return ()


def resolve_length(model: Architecture, workload: _Any) -> _Any:
    """Return a workload with the length that its item makes.

    It is 1 for an image, and for audio its steps; what the request says of tokens has no effect.
    """
    reads = get_reads(model)
    if reads is None:
        return workload
    length = 1
    if reads.grows and workload.inputs is not None and workload.inputs.audio:
        length = reads.count_steps(workload.inputs.audio[0].seconds)
    if isinstance(workload, TrainWorkload):
        return replace(workload, sequence_length=length)
    return replace(workload, prompt_tokens=length)
