"""If-Match and If-None-Match preconditions (RFC 9110, sec. 13.1).

With If-Match nobody overwrites a version that he has not seen; with If-None-Match nobody is sent a
version that he has.
"""

import re

from service.base.errors import (
    InvalidRequestError,
    PreconditionFailedError,
    PreconditionRequiredError,
)

_TAG = r'(W/)?"([\x21\x23-\x7e\x80-\xff]*)"'
_TAGS = re.compile(rf"\s*{_TAG}(?:\s*,\s*{_TAG})*\s*")
_EACH = re.compile(_TAG)


def check_if_match(if_match: str | None, etag: str) -> None:
    """Refuse a change without a matching ``If-Match`` header.

    A missing header is refused with 428, a broken one with 422, one that does not name ``etag``
    with 412.
    """
    if if_match is None:
        message = (
            f'send If-Match with the ETag that a GET returned (now "{etag}"), or If-Match: * to '
            "change whatever is there"
        )
        raise PreconditionRequiredError(message)
    if if_match.strip() == "*":
        return
    # A weak tag never matches: If-Match compares strongly.
    named = {tag for weak, tag in _parse_tags(if_match, "If-Match", etag) if not weak}
    if etag not in named:
        message = (
            f'the resource is at version "{etag}" now; read it again and repeat the change on what '
            "you find"
        )
        raise PreconditionFailedError(message)


def is_not_modified(if_none_match: str | None, etag: str) -> bool:
    """Return whether ``If-None-Match`` names this version.

    It compares weakly. A broken header is refused (422).
    """
    if if_none_match is None:
        return False
    if if_none_match == f'"{etag}"':
        return True
    return if_none_match.strip() == "*" or etag in {
        tag for _, tag in _parse_tags(if_none_match, "If-None-Match", etag)
    }


def _parse_tags(header_value: str, header: str, etag: str) -> list[tuple[str, str]]:
    """Return the entity tags of a header, each with its weak mark."""
    if not _TAGS.fullmatch(header_value):
        message = (
            f"{header} is {header_value[:80]!r}; it must be an ETag in double quotes, such as "
            f'"{etag}"'
        )
        raise InvalidRequestError(message, errors=[{"field": header, "message": message}])
    return _EACH.findall(header_value)
