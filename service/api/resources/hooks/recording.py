"""Decisions of hooks as rows of their log."""

from typing import Any
from uuid import UUID

from litestar import Request

from service.access.keys import NOBODY
from service.api.http.auth import get_principal
from service.api.http.dependencies import get_dependencies
from service.formats.submissions.submission import Submission
from service.usecases.hooks.decision import Decision, HookVerdict, Mode
from service.usecases.hooks.log import HookDecision

_MAX_NAME = 128


def record_decision(
    request: Request[Any, Any, Any],
    submission: Submission,
    decision: Decision,
    *,
    mode: Mode,
    seconds: float = 0.0,
    is_logged: bool = True,
) -> None:
    """Count a decision, and write it down.

    Of a job that asks for no GPU nothing was decided.
    """
    deps, door = get_dependencies(request), submission.scheduler
    deps.metrics.count_hook(door, decision.verdict.value, decision.action.value, seconds)
    if not is_logged or decision.verdict is HookVerdict.NONE:
        return
    principal, question = get_principal(request.scope), decision.question
    deps.record_decision(
        HookDecision(
            door=door,
            mode=mode.value,
            user_name=_clean(submission.user),
            queue=_clean(submission.queue),
            job_name=_clean(submission.name),
            principal=NOBODY if principal is None else principal.name,
            request_id=str(request.scope["state"]["request_id"]),
            key_id=None
            if principal is None or principal.key_id is None
            else UUID(principal.key_id),
            digest=None if question is None else question.digest,
            question=None if question is None else question.document,
            before=None
            if decision.before is None
            else (decision.before.digest, decision.before.document),
            gpu=decision.gpu,
            verdict=decision.verdict.value,
            action=decision.action.value,
            needed_bytes=decision.needed_bytes,
            usable_bytes=decision.usable_bytes,
            sentence=decision.sentence,
        )
    )


def _clean(name: str | None) -> str | None:
    """Return a foreign name as it can be stored."""
    if name is None:
        return None
    return "".join(mark for mark in name if mark.isprintable())[:_MAX_NAME] or None
