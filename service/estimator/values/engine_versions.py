"""Versions of engines, compared as numbers.

Each engine's releases are identified by them.
"""

import re
from dataclasses import dataclass

from service.estimator.values.errors import InvalidInputError, NotModelledError

_FIELD = "workload.engine_version"
_PARTS = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?(?:[-+.]?(?:post|rc|dev|a|b|\+).*)?")


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """A release: major, minor and patch number."""

    major: int
    minor: int
    patch: int = 0

    def __str__(self) -> str:
        """Return the version as its project writes it."""
        return f"{self.major}.{self.minor}.{self.patch}"


def parse_version(text: str) -> Version:
    """Return a version; raise InvalidInputError for invalid text."""
    match = _PARTS.fullmatch(text.strip())
    if match is None:
        message = f'engine_version {text!r} is no version such as "0.19.0"'
        raise InvalidInputError(message, field=_FIELD)
    return Version(int(match[1]), int(match[2]), int(match[3] or 0))


def resolve_version(text: str | None, *, engine: str, oldest: Version, newest: Version) -> Version:
    """Return the requested version.

    It is the newest that was read when none is requested. Raises NotModelledError for releases
    before the oldest.
    """
    if text is None:
        return newest
    version = parse_version(text)
    if version < oldest:
        raise NotModelledError(
            f"{engine} {version}",
            field=_FIELD,
            modelled=[f"{oldest} and later, read up to {newest}"],
        )
    return version
