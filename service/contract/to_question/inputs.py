"""Images, videos and audio of requests as values of the estimator."""

from dataclasses import replace
from typing import Any

from msgspec import UnsetType

from service.base.errors import InvalidRequestError
from service.contract.missing_fields import explain_missing
from service.contract.schemas.methods import InputsRequest
from service.contract.schemas.serving import ServeRequest
from service.contract.schemas.workload import TrainRequest
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


def read_sequence(request: TrainRequest | ServeRequest, name: str) -> dict[str, Any]:
    """Return the tokens of a sequence, by their name, and its inputs.

    What is no text has a length of its own, which the model knows. Raises InvalidRequestError where
    neither is said.
    """
    length, inputs = getattr(request, name), read_inputs(request.inputs)
    if not isinstance(length, UnsetType):
        return {name: length, "inputs": inputs}
    if inputs is None:
        path, message = f"workload.{name}", explain_missing(type(request), (name,))
        raise InvalidRequestError(
            f"{path}: {message}", errors=[{"field": path, "message": message}]
        )
    return {name: 1, "inputs": replace(inputs, alone=True)}
