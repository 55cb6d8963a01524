"""Decisions that are one, though a scheduler asked several times."""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, replace
from uuid import UUID

import msgspec

from service.db.records.hooks import HookDecision

MAX_KEPT = 4096
_ROUND_S, _SUBMISSION_S, _DAY_S = 600.0, 600.0, 86_400.0
_ROUNDS = {"kube_scheduler": _ROUND_S, "volcano": _ROUND_S, "kueue": _DAY_S}
"""Doors of schedulers that show a waiting job again and again, and how long it is one decision."""
_SUBMISSIONS = {"skypilot": _SUBMISSION_S, "dstack": _SUBMISSION_S}
"""Doors of those that ask several times while a job is submitted: for its plan, from its client."""
_NOTHING = UUID(int=0)
_LETS_PASS = frozenset({"allow", "warn"})


@dataclass(slots=True)
class _Recent:
    """The last decision of a row, and when its first was made."""

    decision: HookDecision
    first_at: float


class RecentDecisions:
    """Rows that a decision may belong to; not safe between threads."""

    def __init__(self) -> None:
        """Start empty."""
        self._recent: OrderedDict[Hashable, _Recent] = OrderedDict()

    def find_row(self, decision: HookDecision, now: float) -> UUID:
        """Return the id of a decision's row.

        It is its own where it is a new one.
        """
        if decision.door in _ROUNDS:
            # Neither its id nor the request makes a decision another one.
            key: Hashable = replace(
                decision, id=_NOTHING, request_id="", question=None, before=None
            )
            lasts_s = _ROUNDS[decision.door]
        elif decision.door in _SUBMISSIONS:
            key, lasts_s = _identify(decision), _SUBMISSIONS[decision.door]
        else:
            return decision.id
        recent = self._recent.get(key)
        if (
            recent is None
            or now - recent.first_at > lasts_s
            or (decision.door in _SUBMISSIONS and not _goes_on(recent.decision, decision))
        ):
            self._recent[key] = recent = _Recent(decision, now)
        elif recent.decision.user_name is None:
            recent.decision = replace(recent.decision, user_name=decision.user_name)
        self._recent.move_to_end(key)
        while len(self._recent) > MAX_KEPT:
            self._recent.popitem(last=False)
        return recent.decision.id


def _identify(decision: HookDecision) -> Hashable:
    """Return what a submission is known by, whatever is decided about it.

    Its layout may be changed between two questions, and only the later one may name its user.
    """
    subject: object = decision.sentence
    if decision.question is not None:
        members = {name: part for name, part in decision.question.items() if name != "layout"}
        subject = msgspec.json.encode(members, order="deterministic")
    names = decision.door, decision.mode, decision.queue, decision.job_name
    return *names, decision.principal, decision.key_id, subject


def _goes_on(first: HookDecision, later: HookDecision) -> bool:
    """Return whether two decisions are about one submission.

    What was changed comes again with its new GPUs, and passes.
    """
    if None not in {first.user_name, later.user_name} and first.user_name != later.user_name:
        return False
    if first.action == "change" and later.action in _LETS_PASS:
        return True
    return (first.verdict, first.action, first.digest) == (
        later.verdict,
        later.action,
        later.digest,
    )
