"""Content negotiation by Accept and Accept-Encoding.

RFC 9110, sections 12.5.1 and 12.5.3.
"""

import re

_QUALITY = re.compile(r"(?:0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)")


def is_text_preferred(accept: str | None) -> bool:
    """Return whether the client prefers plain text to JSON.

    JSON is what a client without a preference gets.
    """
    return is_preferred(accept, "text/plain")


def is_preferred(accept: str | None, media: str) -> bool:
    """Return whether the client prefers ``media`` to JSON."""
    if accept is None:
        return False
    ranges = [_parse_range(part) for part in accept.split(",")]
    return _get_quality(ranges, media) > _get_quality(ranges, "application/json")


def is_gzip_accepted(accept_encoding: str | None) -> bool:
    """Return whether the client accepts gzip.

    One that does not say so gets none.
    """
    codings = dict(_parse_range(part) for part in (accept_encoding or "").split(","))
    return codings.get("gzip", codings.get("*", 0.0)) > 0


def _parse_range(part: str) -> tuple[str, float]:
    media, *parameters = (piece.strip().lower() for piece in part.split(";"))
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q" and _QUALITY.fullmatch(value.strip()):
            return media, float(value)
    return media, 1.0


def _get_quality(ranges: list[tuple[str, float]], media: str) -> float:
    """Return the quality of the most specific range that covers ``media``."""
    for media_range in (media, f"{media.partition('/')[0]}/*", "*/*"):
        qualities = [quality for name, quality in ranges if name == media_range]
        if qualities:
            return max(qualities)
    return 0.0
