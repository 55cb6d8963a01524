"""Encoding of answers as JSON."""

from collections.abc import Sequence

import msgspec

from service.base.errors import InvalidRequestError

_encoder = msgspec.json.Encoder()
_GAP_BYTES = b"\0"
GAP = msgspec.Raw(_GAP_BYTES)
"""Stands in an answer for a value that differs; JSON escapes this byte in every text (RFC 8259,
sec. 7), so that nothing else encodes to it.
"""


class Template:
    """Encoded answer with gaps, for answers that differ in some values alone."""

    __slots__ = ("_pieces",)

    def __init__(self, answer: object) -> None:
        """Encode an answer that has ``GAP`` where others differ."""
        self._pieces = encode(answer).split(_GAP_BYTES)

    @property
    def num_bytes(self) -> int:
        """Bytes beside the gaps."""
        return sum(map(len, self._pieces))

    def fill(self, values: Sequence[object]) -> bytes:
        """Return the encoded answer that has one value in each gap."""
        first, *others = self._pieces
        encoded = [first]
        for value, piece in zip(values, others, strict=True):
            encoded += (encode(value), piece)
        return b"".join(encoded)


def encode(value: object) -> bytes:
    """Encode an answer as JSON.

    Refuses a number that no client could read exactly.
    """
    try:
        return _encoder.encode(value)
    except OverflowError as error:
        message = "the answer has numbers beyond 2^64 bytes; ask for less"
        raise InvalidRequestError(message) from error
