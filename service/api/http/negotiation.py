"""Which of two media types a client would rather have, and whether it unpacks (RFC 9110, sections 12.5.1 and 12.5.3)."""

import re

_QUALITY = re.compile(r"(?:0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)")


def prefers_text(accept: str | None) -> bool:
    """Tell whether plain text is wanted more than JSON, which is what somebody without a preference gets."""
    return prefers(accept, "text/plain")


def prefers(accept: str | None, media: str) -> bool:
    """Tell whether ``media`` is wanted more than JSON."""
    if accept is None:
        return False
    ranges = [_range(part) for part in accept.split(",")]
    return _quality(ranges, media) > _quality(ranges, "application/json")


def unpacks_gzip(accept_encoding: str | None) -> bool:
    """Tell whether a client reads what is gzipped; one that does not say so is not asked to."""
    codings = dict(_range(part) for part in (accept_encoding or "").split(","))
    return codings.get("gzip", codings.get("*", 0.0)) > 0


def _range(part: str) -> tuple[str, float]:
    media, *parameters = (piece.strip().lower() for piece in part.split(";"))
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q" and _QUALITY.fullmatch(value.strip()):
            return media, float(value)
    return media, 1.0


def _quality(ranges: list[tuple[str, float]], media: str) -> float:
    """Return the quality of the most specific range that covers ``media``."""
    for wanted in (media, f"{media.partition('/')[0]}/*", "*/*"):
        qualities = [quality for name, quality in ranges if name == wanted]
        if qualities:
            return max(qualities)
    return 0.0
