"""Models that handed-in files name.

Whoever reads it in a process of its own has no database and no hub there: it is read until it asks
for a model that it was not given, and again with that.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from service.base.errors import InvalidRequestError, ServiceError
from service.contract.schemas.fit import ModelReference
from service.contract.to_question.launches import FindCheckpoint
from service.estimator.values.errors import EstimatorError
from service.formats.launches.values.launch import Checkpoint

T = TypeVar("T")
MAX_MODELS = 8
"""Models of one launch: a policy, its reward and its draft have as many names as they are."""


class MissingCheckpointError(Exception):
    """A model is asked for that was not given."""

    def __init__(self, reference: ModelReference) -> None:
        """Name it."""
        super().__init__(reference)
        self.reference = reference


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """Checkpoints of models by their references, or their refusals."""

    by_reference: Mapping[bytes, Checkpoint | ServiceError | EstimatorError] = field(
        default_factory=dict
    )

    def find(self, reference: ModelReference) -> Checkpoint:
        """Return what is known of a model.

        Raises why nothing is, and MissingCheckpointError.
        """
        checkpoint = self.by_reference.get(_encode(reference))
        if checkpoint is None:
            raise MissingCheckpointError(reference)
        if not isinstance(checkpoint, Checkpoint):
            raise checkpoint
        return checkpoint


def read_with_models(read: Callable[[Checkpoints], T], find: FindCheckpoint) -> T:
    """Return what is read, with the models that it asks for.

    Raises what ``read`` raises, and InvalidRequestError for more than a launch has.
    """
    by_reference: dict[bytes, Checkpoint | ServiceError | EstimatorError] = {}
    while len(by_reference) <= MAX_MODELS:
        try:
            return read(Checkpoints(by_reference=by_reference))
        except MissingCheckpointError as error:
            by_reference[_encode(error.reference)] = _look_up(find, error.reference)
    message = f"the launch names more than {MAX_MODELS} models; import a part of it"
    raise InvalidRequestError(message)


def _look_up(
    find: FindCheckpoint, reference: ModelReference
) -> Checkpoint | ServiceError | EstimatorError:
    try:
        return find(reference)
    except (ServiceError, EstimatorError) as error:
        return error


def _encode(reference: ModelReference) -> bytes:
    return msgspec.json.encode(reference)
