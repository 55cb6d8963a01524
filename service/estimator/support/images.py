"""Which images a request asks for, and what a model without images refuses."""

from service.estimator.architecture import Architecture
from service.estimator.errors import InvalidInputError
from service.estimator.images import Images
from service.estimator.layout import Layout, Sharding
from service.estimator.workload import TrainWorkload

NONE: frozenset[str] = frozenset()


def images_of(model: Architecture, workload: TrainWorkload) -> Images | None:
    """Return the images of each sequence; None for a model that takes none, and for a request that has none."""
    if model.images is None:
        return None
    return model.images.read(
        num_images=workload.num_images, image_tokens=workload.image_tokens, num_sequences=workload.micro_batch_size
    )


def idle_names(model: Architecture, workload: TrainWorkload) -> frozenset[str]:
    """Return the names of the weights that get no gradient: a tower's without images, and what nothing reads or trains."""
    return model.never_trained if model.images is None else model.images.idle(images_of(model, workload))


def check_images(model: Architecture, workload: TrainWorkload, layout: Layout) -> None:
    """Raise for images that a model does not take, or that its sequences have no room for."""
    if model.images is None:
        _refuse_images(model, workload)
        return
    images = images_of(model, workload)
    if model.images.contrasts and layout.sharding is Sharding.FSDP2:
        message = f"fsdp2 shards no scalar parameter, and the logit_scale of {model.family} is one; use ddp or deepspeed"
        raise InvalidInputError(message, field="layout.sharding")
    if images is None or model.images.every_sequence:
        return
    needed = images.per_sequence * images.tokens
    if needed > workload.sequence_length:
        message = (
            f"num_images {images.per_sequence} of {images.tokens} tokens each take {needed} of a sequence, "
            f"but sequence_length is {workload.sequence_length}, which counts them"
        )
        raise InvalidInputError(message, field="workload.num_images")


def _refuse_images(model: Architecture, workload: TrainWorkload) -> None:
    for name in ("num_images", "image_tokens"):
        if (value := getattr(workload, name)) is not None:
            message = f"{name} is {value}, but {model.family} takes no images; leave it out"
            raise InvalidInputError(message, field=f"workload.{name}")
