"""What two runs of the same code answer differently: each with its pattern, and why."""

import base64
import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

_LONGEST_KEPT = 1_000_000
_SHORTEST_CAPTURED = 8
_FILES = re.compile(r"^(text/(css|javascript)|image/|font/|application/octet-stream)")
_TIME = r"\b20(?!20)\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+00:00)?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What is replaced by its name, numbered where one is told from another."""

    name: str
    pattern: re.Pattern[str]
    reason: str
    numbered: bool = False


RULES = (
    Rule(
        name="id",
        pattern=re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"),
        reason="ids of what is stored are drawn by chance",
        numbered=True,
    ),
    Rule(
        name="part of an id",
        pattern=re.compile(
            r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-(?= )|\b[0-9a-f]{4}-[0-9a-f]{12}\b"
        ),
        reason="a narrow column of a table breaks an id into two lines",
    ),
    Rule(
        name="version",
        pattern=re.compile(r'(?<=")[0-9a-f]{32}(?=(-\d+)?\\?")'),
        reason="the version of what is stored is drawn by chance",
        numbered=True,
    ),
    Rule(
        name="key",
        pattern=re.compile(r"\bhr_(?!nobody)[A-Za-z0-9_-]{8,}"),
        reason="API keys are drawn by chance",
        numbered=True,
    ),
    Rule(
        name="time",
        pattern=re.compile(_TIME),
        reason="when something was stored, asked, used or runs out",
    ),
    Rule(
        name="elapsed",
        pattern=re.compile(r'(?<="elapsed_ms":)( ?)[0-9.e+-]+'),
        reason="how long a search took",
    ),
    Rule(
        name="took",
        pattern=re.compile(r"(?<= in )\d+ m?s\b"),
        reason="how long a search took, in the words of the command line",
    ),
    Rule(
        name="request",
        pattern=re.compile(r'(?<=under request )[0-9a-f]+|(?<="request_id":")[0-9a-f]+'),
        reason="ids of requests are drawn by chance",
    ),
    Rule(
        name="wait",
        pattern=re.compile(r'(?<="retry_after_s":)( ?)\d+|(?<=again in )\d+ s|(?<=retry in )\d+'),
        reason="until a key's limit lets through again",
    ),
    Rule(
        name="build",
        pattern=re.compile(r"(?<=/static/)[0-9a-f]{16}(?=/)"),
        reason="a digest of all files of the pages; the files themselves are compared",
    ),
    Rule(
        name="server",
        pattern=re.compile(r"http://127\.0\.0\.1:\d+|\b127\.0\.0\.1:\d+"),
        reason="a free port is taken",
    ),
)
DROPPED = {
    "date": "when the answer was sent",
    "x-request-id": "drawn by chance",
    "content-length": "follows the digits of elapsed_ms; the body itself is compared",
    "retry-after": "until a key's limit lets through again",
    "connection": "what the client and the server agree on",
}
"""Headers that are left out; every other one is kept."""

UNORDERED = {
    '"openapi":': "paths, methods and schemas stand in the order of a set, drawn by each start",
    '"exact":': "points that one calibration rests on stand in the order of drawn ids",
    '"left_out":': "what a calibration says of each measurement stands in the order of drawn ids",
    '"principal":': "changes of the same few milliseconds are noted in any order",
    '"evidence":': "measurements that one calibration rests on stand in the order of drawn ids",
}
"""Marks of answers whose lists or members are sorted before they are compared."""

_CURSOR = re.compile(r'(?<="next_cursor":")[A-Za-z0-9_=-]+(?=")')


def normal(text: str, captured: Mapping[str, str]) -> str:
    """Return a text without what differs between two runs of the same code."""
    for name, value in captured.items():
        if len(value) >= _SHORTEST_CAPTURED:
            text = text.replace(value, f"<{name}>")
    text = _CURSOR.sub(_cursor, text)
    for rule in RULES:
        text = _replaced(rule, text)
    return text


def normal_answer(
    status: int, headers: Mapping[str, str], body: bytes, captured: Mapping[str, str]
) -> dict[str, Any]:
    """Return an answer over HTTP as it is kept."""
    kept = {name.lower(): normal(value, captured) for name, value in headers.items()}
    kept = {name: value for name, value in sorted(kept.items()) if name not in DROPPED}
    return {"status": status, "headers": kept} | _body(kept.get("content-type", ""), body, captured)


def _body(media_type: str, body: bytes, captured: Mapping[str, str]) -> dict[str, Any]:
    if _FILES.match(media_type) or len(body) > _LONGEST_KEPT:
        return {"sha256": sha256(body).hexdigest(), "bytes": len(body)}
    text = body.decode("utf-8", errors="backslashreplace")
    if media_type.startswith("text/plain; version"):
        # Values count what was asked and how long it took; labels say it of what was seen so far.
        text = "".join(line for line in text.splitlines(keepends=True) if line.startswith("#"))
    return {"body": ordered(normal(text, captured))}


def ordered(text: str) -> str:
    """Return JSON with its unordered parts sorted, and any other text as it is."""
    if not any(mark in text for mark in UNORDERED):
        return text
    try:
        return json.dumps(_sorted(json.loads(text)), ensure_ascii=False)
    except ValueError:
        return text


def _sorted(value: Any, name: str = "") -> Any:  # noqa: ANN401
    if isinstance(value, dict):
        kept = {one: _sorted(inner, one) for one, inner in value.items()}
        return (
            dict(sorted(kept.items())) if name in {"paths", "schemas"} or _is_path(kept) else kept
        )
    if isinstance(value, list):
        inner = [_sorted(one) for one in value]
        changes = any(isinstance(one, dict) and "principal" in one for one in inner)
        return sorted(inner, key=json.dumps) if changes or f'"{name}":' in UNORDERED else inner
    return value


def _is_path(value: Mapping[str, Any]) -> bool:
    """Tell whether these are the methods of a path in an OpenAPI document."""
    return bool(value) and set(value) <= {"get", "put", "post", "delete", "parameters"}


def _replaced(rule: Rule, text: str) -> str:
    """Replace what a rule finds, by the order of its first appearance where it is numbered."""
    seen: dict[str, int] = {}

    def placeholder(found: re.Match[str]) -> str:
        if not rule.numbered:
            return f"<{rule.name}>"
        return f"<{rule.name} {seen.setdefault(found[0], len(seen) + 1)}>"

    return rule.pattern.sub(placeholder, text)


def _cursor(found: re.Match[str]) -> str:
    """Replace a cursor that holds an id or a time; others are the same every time."""
    try:
        said = base64.urlsafe_b64decode(found[0] + "=" * (-len(found[0]) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError):
        return "<cursor>"
    variable = any(rule.pattern.search(said) for rule in RULES)
    return f"<cursor {normal(said, {})}>".replace('"', "'") if variable else found[0]
