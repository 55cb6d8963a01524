"""If-Match: nobody overwrites or deletes what he has not seen (RFC 9110, sec. 13.1.1)."""

import re

from service.errors import InvalidRequestError, PreconditionFailedError, PreconditionRequiredError

_TAG = r'(W/)?"([\x21\x23-\x7e\x80-\xff]*)"'
_TAGS = re.compile(rf"\s*{_TAG}(?:\s*,\s*{_TAG})*\s*")
_EACH = re.compile(_TAG)


def check_if_match(if_match: str | None, etag: str) -> None:
    """Refuse a change whose ``If-Match`` header is missing (428), broken (422) or does not name ``etag`` (412)."""
    if if_match is None:
        message = f'send If-Match with the ETag that a GET returned (now "{etag}"), or If-Match: * to change whatever is there'
        raise PreconditionRequiredError(message)
    if if_match.strip() == "*":
        return
    if not _TAGS.fullmatch(if_match):
        message = f'If-Match is {if_match[:80]!r}; it must be an ETag in double quotes, such as "{etag}"'
        raise InvalidRequestError(message, errors=[{"field": "If-Match", "message": message}])
    # A weak tag never matches: If-Match compares strongly.
    named = {tag for weak, tag in _EACH.findall(if_match) if not weak}
    if etag not in named:
        message = f'the resource is at version "{etag}" now; read it again and repeat the change on what you find'
        raise PreconditionFailedError(message)
