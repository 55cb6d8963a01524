"""Gates of suspended jobs, which are sized and released.

A job's new number of GPUs and the end of its gate are one patch of one version of it: the API
stores both or neither, so that no death of this process leaves a job released and unsized, or sized
twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import anyio

from service.formats.manifests.kueue import GATE, GATED_BY
from service.kueue.api import Json, KubeApi, ObjectKey, get_metadata
from service.kueue.asking import Answer, Asker
from service.kueue.errors import NOT_FOUND, REFUSALS, AskError, KubeError
from service.kueue.events import Notice
from service.kueue.reports import Report, Reporter
from service.usecases.hooks.decision import Action, HookVerdict, Mode, decide_unknown, make_line

DECISION = "headroom.dev/decision"
"""Annotation that holds the line about a released job."""
MAX_ATTEMPTS = 5
"""Failed questions in a row, within 15 s and their time-outs, before nothing can be said."""


class GateAction(StrEnum):
    """Outcome of a gated job."""

    RELEASE = "release"
    CHANGE = "change"
    KEEP = "keep"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateKeeper:
    """Keeper of the gates that bear our name.

    ``mode`` says what becomes of a job that does not fit.
    """

    api: KubeApi
    asker: Asker
    reporter: Reporter
    mode: Mode

    async def reconcile(self, key: ObjectKey, unanswered: int) -> None:
        """Decide about a job if it waits for us.

        Raises ServiceError where it has to be looked at again.
        """
        since = anyio.current_time()
        job = await self.api.get(key)
        if job is None or not is_waiting(job):
            return
        answer = await ask_patiently(self.asker, (job,), self.mode, unanswered)
        action = _choose(answer)
        if action is not GateAction.KEEP:
            try:
                await self.api.patch_json(key, make_operations(job, answer))
            except KubeError as error:
                if error.code == NOT_FOUND:
                    return
                if error.code not in REFUSALS or not await self._is_refused(key, job, answer):
                    # The job has changed, or the API is in trouble: it is looked at again.
                    raise
                action = GateAction.KEEP
                why = f"{answer.sentence}; its GPUs cannot be changed: {error.detail}"
                answer = replace(answer, sentence=make_line(why))
        report = Report(
            door="gate",
            action=action.value,
            answer=answer,
            notice=_make_notice(answer, action),
            since=since,
        )
        if action is GateAction.KEEP:
            await self.reporter.tell(key, job, report)
            return
        self.reporter.note(key, report)
        await self.reporter.recorder.record(job, report.notice)

    async def _is_refused(self, key: ObjectKey, job: Json, answer: Answer) -> bool:
        """Return whether the new number of GPUs is refused.

        A patch whose paths are gone, since somebody took the gate away, is refused the same way.
        """
        stored = await self.api.get(key) if answer.operations else None
        return stored is not None and _get_version(stored) == _get_version(job)


def _choose(answer: Answer) -> GateAction:
    if not answer.allowed:
        return GateAction.KEEP
    return GateAction.CHANGE if answer.operations else GateAction.RELEASE


async def ask_patiently(
    asker: Asker,
    alternatives: Sequence[Json],
    mode: Mode,
    unanswered: int,
    *,
    is_placed: bool = False,
) -> Answer:
    """Return the decision about an object, by its alternatives.

    After several failures in a row it is what the server knows, or that nothing can be said; raises
    AskError before that.
    """
    is_last = unanswered + 1 >= MAX_ATTEMPTS
    try:
        return await asker.ask(alternatives, mode, is_placed=is_placed, is_last=is_last)
    except AskError as error:
        if not is_last:
            raise
        decision = decide_unknown(error.detail, fails_closed=asker.fails_closed)
        return Answer(
            allowed=decision.action is not Action.REFUSE,
            verdict=decision.verdict,
            sentence=decision.sentence,
        )


def is_waiting(job: Json) -> bool:
    """Return whether a job is suspended, and has our gate."""
    is_suspended = (job.get("spec") or {}).get("suspend") is True
    return (
        is_suspended and GATE in _list_gates(job) and "deletionTimestamp" not in (get_metadata(job))
    )


def make_operations(job: Json, answer: Answer) -> list[Json]:
    """Return the patch that releases a job.

    It holds for the version that was judged alone.
    """
    annotations = "/metadata/annotations"
    path = f"{annotations}/{_escape(GATED_BY)}"
    remaining = [gate for gate in _list_gates(job) if gate != GATE]
    end: Json = (
        {"op": "replace", "path": path, "value": ",".join(remaining)}
        if remaining
        else {"op": "remove", "path": path}
    )
    operations = [
        # Not "test", whose failure is no conflict to the API server but a bad request.
        {"op": "replace", "path": "/metadata/resourceVersion", "value": _get_version(job)},
        *answer.operations,
        end,
    ]
    if answer.sentence:
        note = {"op": "add", "path": f"{annotations}/{_escape(DECISION)}", "value": answer.sentence}
        operations.append(note)
    return operations


def _get_version(job: Json) -> str:
    return str(get_metadata(job).get("resourceVersion"))


def _list_gates(job: Json) -> list[str]:
    text = (get_metadata(job).get("annotations") or {}).get(GATED_BY, "")
    return [gate for word in str(text).split(",") if (gate := word.strip())]


def _escape(name: str) -> str:
    """Return a part of a JSON pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")


def _make_notice(answer: Answer, action: GateAction) -> Notice:
    reasons = {
        GateAction.RELEASE: "HeadroomReleased",
        GateAction.CHANGE: "HeadroomResized",
        GateAction.KEEP: "HeadroomGated",
    }
    good = {HookVerdict.FITS, HookVerdict.NONE}
    return Notice(
        reason=reasons[action],
        sentence=answer.sentence or "headroom: the job asks for no GPU, and is released",
        is_warning=action is GateAction.KEEP
        or (action is GateAction.RELEASE and answer.verdict not in good),
    )
