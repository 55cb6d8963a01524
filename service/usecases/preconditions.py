"""If-Match: nobody overwrites what he has not seen; If-None-Match: nobody is sent what he has (RFC 9110, sec. 13.1)."""

import re

from service.base.errors import InvalidRequestError, PreconditionFailedError, PreconditionRequiredError

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
    # A weak tag never matches: If-Match compares strongly.
    named = {tag for weak, tag in _tags(if_match, "If-Match", etag) if not weak}
    if etag not in named:
        message = f'the resource is at version "{etag}" now; read it again and repeat the change on what you find'
        raise PreconditionFailedError(message)


def has_seen(if_none_match: str | None, etag: str) -> bool:
    """Tell whether a reader has this version by its ``If-None-Match``, which compares weakly; a broken one is refused (422)."""
    if if_none_match is None:
        return False
    return if_none_match.strip() == "*" or etag in {tag for _, tag in _tags(if_none_match, "If-None-Match", etag)}


def _tags(said: str, header: str, etag: str) -> list[tuple[str, str]]:
    """Return each tag of a header, with what marks it as weak."""
    if not _TAGS.fullmatch(said):
        message = f'{header} is {said[:80]!r}; it must be an ETag in double quotes, such as "{etag}"'
        raise InvalidRequestError(message, errors=[{"field": header, "message": message}])
    return _EACH.findall(said)
