"""Encoding of answers as JSON."""

import msgspec

from service.base.errors import InvalidRequestError

_encoder = msgspec.json.Encoder()


def encode(value: object) -> bytes:
    """Encode an answer as JSON.

    Refuses a number that no client could read exactly.
    """
    try:
        return _encoder.encode(value)
    except OverflowError as error:
        message = "the answer has numbers beyond 2^64 bytes; ask for less"
        raise InvalidRequestError(message) from error
