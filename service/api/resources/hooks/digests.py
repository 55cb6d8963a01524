"""Digests of questions, by which they are looked up again."""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from service.contract.schemas.fit import FitRequest
from service.usecases.hooks.decision import HookQuestion

MAX_QUESTION_BYTES = 16 * 1024
"""Of a question that is stored; one with a pasted config may be longer."""
_DIGITS = 32
_LEFT_OUT = frozenset({"remedies"})
"""What the answer shows, and not what it is about."""


def digest_question(request: FitRequest) -> HookQuestion | None:
    """Return a question with its digest, None where it is too long.

    The digest is the first half of the SHA-256 of its JSON with sorted members.
    """
    document: Mapping[str, Any] = {
        name: value for name, value in msgspec.to_builtins(request).items() if name not in _LEFT_OUT
    }
    text = msgspec.json.encode(document, order="deterministic")
    if len(text) > MAX_QUESTION_BYTES:
        return None
    return HookQuestion(digest=hashlib.sha256(text).hexdigest()[:_DIGITS], document=document)
