"""Plans as ``headroom plan --json`` prints them, read for a submission."""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from service.base.errors import InvalidRequestError
from service.cli.model_files.json_files import STDIN, read_object
from service.cli.submissions.scheduler import Scheduler
from service.terminal.controls import spell_controls

_ID_DIGITS = 12


class NoPlanError(InvalidRequestError):
    """A plan that does not run today."""


def read_plan(path: Path) -> dict[str, Any]:
    """Return a plan from a file or stdin."""
    if str(path) != STDIN:
        return read_object(path)
    if sys.stdin.isatty():
        message = "which plan? headroom plan … --cluster NAME --json | headroom submit --to …"
        raise InvalidRequestError(message)
    try:
        document = json.load(sys.stdin)
    except ValueError as error:
        message = f"stdin holds no plan: {error}; pipe `headroom plan … --json` into this"
        raise InvalidRequestError(message) from None
    if not isinstance(document, dict):
        message = "stdin holds no plan; pipe `headroom plan … --json` into this"
        raise InvalidRequestError(message)
    return document


def derive_id(plan: dict[str, Any], *facts: str) -> str:
    """Return the same id for the same plan and facts."""
    text = json.dumps([plan, *facts], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_ID_DIGITS]


def read_question(plan: dict[str, Any]) -> dict[str, Any] | None:
    """Return the question that the best plan answers.

    It is a body of ``POST /v1/fit``, and None where its model has no name.
    """
    best = plan["candidates"][0]
    parts = {name: best.get(name) for name in ("gpu", "layout", "workload")}
    if not isinstance(plan.get("model"), str) or None in parts.values():
        return None
    # What its nodes measure is then the cluster's.
    named = best.get("fit", {}).get("cluster")
    cluster = {} if named is None else {"cluster": named["name"]}
    return {"model": plan["model"], **parts, **cluster}


def read_best(plan: dict[str, Any], scheduler: Scheduler) -> tuple[dict[str, Any], Any]:
    """Return where the best plan runs, and its rendering for a scheduler.

    Raises NoPlanError where nothing runs today.
    """
    candidates = plan.get("candidates")
    if not isinstance(candidates, list):
        message = "this is no plan: it has no candidates; pipe `headroom plan … --json` into this"
        raise InvalidRequestError(message)
    if not candidates:
        message = f"there is no plan to submit: {spell_controls(str(plan.get('reason')))}"
        raise NoPlanError(message)
    placement = candidates[0].get("placement")
    if placement is None:
        message = "this plan is on no cluster; ask with headroom plan … --cluster NAME --json"
        raise InvalidRequestError(message)
    if placement.get("status") != "placed":
        message = f"the plan does not run today: {spell_controls(str(placement.get('reason')))}"
        raise NoPlanError(message)
    document = (candidates[0].get("requests") or {}).get(scheduler.format)
    if document is None:
        message = (
            f"this plan is not rendered for {scheduler.format}; ask with headroom plan … --format "
            f"{scheduler.format} --json"
        )
        raise InvalidRequestError(message)
    return placement, document
