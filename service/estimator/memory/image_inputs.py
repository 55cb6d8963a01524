"""Images of a request, and their rules."""

from service.estimator.model.architecture import Architecture
from service.estimator.model.images import Images
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import FULLY_SHARDED, Layout
from service.estimator.values.workload import ServeWorkload, TrainWorkload, Workload


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
        num_images=workload.num_images, image_tokens=workload.image_tokens, num_sequences=sequences
    )


def get_idle_names(model: Architecture, workload: TrainWorkload) -> frozenset[str]:
    """Return the names of the weights that get no gradient.

    They are a tower's without images, and those that nothing reads or trains.
    """
    return (
        model.never_trained
        if model.images is None
        else model.images.get_idle_names(resolve_images(model, workload))
    )


def check_images(model: Architecture, workload: Workload) -> None:
    """Raise for images without support or without room.

    The model does not take them, or its sequences are too short for them.
    """
    if model.images is None:
        _refuse_images(model, workload)
        return
    images = resolve_images(model, workload)
    if images is None or model.images.every_sequence:
        return
    name, room = _get_sequence_tokens(workload)
    needed = images.per_sequence * images.tokens
    if needed > room:
        message = (
            f"num_images {images.per_sequence} of {images.tokens} tokens each take {needed} of a "
            f"sequence, but {name} is {room}, which counts them"
        )
        raise InvalidInputError(message, field="workload.num_images")


def _get_sequence_tokens(workload: Workload) -> tuple[str, int]:
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
        hint = "" if model.images.unread else "; num_images says how many a sequence has"
        return (f"no images: the image tower of {model.family} is loaded and idle{hint}",)
    name, length = _get_sequence_tokens(workload)
    positions = model.images.tokens
    if model.images.every_sequence and not model.images.contrasts and length != positions:
        return (
            (
                f"{name} {length} has no effect: an image of {model.family} takes {positions} "
                "positions"
            ),
        )
    return ()


def check_scalars(model: Architecture, layout: Layout) -> None:
    """Raise for a sharding that takes no scalar parameter.

    CLIP has one (torch 2.13, both of its FSDPs).
    """
    if model.images is not None and model.images.contrasts and layout.sharding in FULLY_SHARDED:
        what = f"{layout.sharding.value} shards no scalar parameter"
        message = f"{what}, and the logit_scale of {model.family} is one; use ddp or deepspeed"
        raise InvalidInputError(message, field="layout.sharding")


def _refuse_images(model: Architecture, workload: Workload) -> None:
    for name in ("num_images", "image_tokens"):
        if (value := getattr(workload, name)) is not None:
            message = f"{name} is {value}, but {model.family} takes no images; leave it out"
            raise InvalidInputError(message, field=f"workload.{name}")
