"""Images, videos and audio of requests as values of the estimator."""

from msgspec import UnsetType

from service.contract.schemas.methods import InputsRequest
from service.estimator.values.batches import Clip, Inputs, Picture, Sound
from service.estimator.values.errors import InvalidInputError


def read_inputs(request: InputsRequest | UnsetType) -> Inputs | None:
    """Return what a sequence has beside its text, if anything.

    Raises InvalidInputError for an object that names nothing.
    """
    if isinstance(request, UnsetType):
        return None
    inputs = Inputs(
        images=tuple(
            Picture(width=sent.width, height=sent.height, count=sent.count)
            for sent in request.images or ()
        ),
        videos=tuple(
            Clip(frames=sent.frames, width=sent.width, height=sent.height, count=sent.count)
            for sent in request.videos or ()
        ),
        audio=tuple(Sound(seconds=sent.seconds, count=sent.count) for sent in request.audio or ()),
        processor={} if isinstance(request.processor, UnsetType) else request.processor,
    )
    if not (inputs.images or inputs.videos or inputs.audio):
        message = (
            "inputs names nothing; say images ({width, height}), videos ({frames, width, height}) "
            "or audio ({seconds}), or leave it out"
        )
        raise InvalidInputError(message, field="workload.inputs")
    return inputs
