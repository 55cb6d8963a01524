"""Texts of other programs, in the encodings of their shells."""

from service.base.errors import InvalidRequestError

_UTF_16 = frozenset({b"\xff\xfe", b"\xfe\xff"})
"""Marks of what PowerShell's ``>`` writes."""


def decode_text(data: bytes, name: str) -> str:
    """Return bytes as text, or refuse what is none."""
    encoding = "utf-16" if data[:2] in _UTF_16 else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        message = f"{name} is no text (byte {error.start}): hand in what the program wrote itself"
        raise InvalidRequestError(message) from None
