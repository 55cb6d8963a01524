"""Keys of searches: digests of all that an answer is computed from."""

from hashlib import sha256
from typing import Any

from service.estimator.model.recorded.recorded_model import RecordedModel
from service.runtime.children.messages import MessagePickler, encode_message
from service.usecases.stored import StoredCluster


def build_search_key(question: object) -> str:
    """Return a digest of all that an answer is computed from.

    It is of what travels to a process that computes, so that nothing which changes an answer is
    left out: the model's modules and not its name, GPUs and prices, nodes and reservations.
    """
    return sha256(encode_compared(question)).hexdigest()


def encode_compared(question: object) -> bytes:
    """Return the bytes that are equal for equal questions alone."""
    return encode_message(question, _ComparingPickler)


class _ComparingPickler(MessagePickler):
    """Pickler that names recordings and clusters by their versions.

    A recording takes tenths of a second to pickle, and so do the nodes of a large cluster: longer
    than many a search for which they would be compared.
    """

    def reducer_override(self, value: object) -> Any:  # noqa: ANN401 - pickle's protocol
        if isinstance(value, RecordedModel):
            return tuple, ((RecordedModel, value.digest),)
        if isinstance(value, StoredCluster):
            # When nodes were last seen leaves the version as it is, and is told in warnings alone.
            state = (value.etag, value.updated_at, value.reservations)
            return tuple, ((StoredCluster, *state),)
        return super().reducer_override(value)
