"""AdmissionChecks: whether a Workload fits on its reserved GPUs.

A check may let a Workload start, send it back, or name the nodes that it gets; it never changes how
many GPUs it has (Kueue has no field for it).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum

import anyio

from service.formats.submissions.submission import ANNOTATION
from service.kueue.api import Json, KubeApi, ObjectKey, format_time, get_metadata
from service.kueue.asking import Answer, Asker
from service.kueue.errors import NOT_FOUND, KubeError
from service.kueue.events import Notice
from service.kueue.gates import ask_patiently
from service.kueue.pod_sets import (
    PodSet,
    Product,
    find_place,
    find_product,
    list_pod_sets,
    make_job_set,
    says_question,
)
from service.kueue.reports import Report, Reporter
from service.kueue.resources import CHECKS, CONTROLLER, FLAVORS, GATED, JOBS
from service.usecases.hooks.decision import HookVerdict, Mode

_RETRY_S, _MAX_RETRY_S = 60, 3600
"""Pause before a Workload that does not fit is tried again, doubled each time up to the second."""
_MAX_DOUBLINGS = 6
MAX_ALTERNATIVES = 16
"""Kinds of GPUs of one pod set that are asked about, the cheapest first."""
_FITTING = frozenset({HookVerdict.FITS, HookVerdict.TIGHT, HookVerdict.NONE})
_NO_GPU = Answer(allowed=True, verdict=HookVerdict.NONE, sentence="headroom: no pod asks for a GPU")


class Unfit(StrEnum):
    """Outcome of a Workload that does not fit.

    ``retry`` sends it back to its queue, for other GPUs or a later day; ``reject`` deactivates it;
    ``warn`` lets it start and says so.
    """

    RETRY = "retry"
    REJECT = "reject"
    WARN = "warn"


class CheckState(StrEnum):
    """State of a check, in Kueue's words."""

    PENDING = "Pending"
    READY = "Ready"
    RETRY = "Retry"
    REJECTED = "Rejected"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckKeeper:
    """Keeper of the AdmissionChecks whose controller we are.

    ``pins`` names the nodes of the GPU that a question was answered for, also where nothing but the
    question says it.
    """

    api: KubeApi
    asker: Asker
    reporter: Reporter
    unfit: Unfit = Unfit.RETRY
    pins: bool = False

    async def reconcile(self, key: ObjectKey, unanswered: int) -> None:
        """Look at a check or a Workload.

        Raises ServiceError where it has to be looked at again.
        """
        if key.resource is CHECKS:
            await self._activate(key)
        else:
            await self._decide(key, unanswered)

    async def _activate(self, key: ObjectKey) -> None:
        """Tell Kueue that a check is looked after."""
        check = await self.api.get(key)
        if check is None or not _is_ours(check):
            return
        generation = int(get_metadata(check).get("generation") or 0)
        condition = _find_condition(check, "Active")
        if condition.get("status") == "True" and condition.get("observedGeneration") == generation:
            return
        active = {
            "type": "Active",
            "status": "True",
            "reason": "Active",
            "message": "headroom kueue answers for this check",
            "observedGeneration": generation,
            "lastTransitionTime": format_time(datetime.now(UTC)),
        }
        await self._apply(key, check, {"conditions": [active]})

    async def _decide(self, key: ObjectKey, unanswered: int) -> None:
        since = anyio.current_time()
        workload = await self.api.get(key)
        if workload is None or not is_pending(workload):
            return
        states = workload["status"]["admissionChecks"]
        answered = [state for state in states if await self._is_our_check(str(state["name"]))]
        if not any(state["state"] == CheckState.PENDING for state in answered):
            return
        owner = await self._find_owner(key, workload)
        answer, pins = await self._judge(workload, owner, unanswered)
        state = self._choose(answer)
        decided = [_make_state(check, state, answer, pins) for check in answered]
        if not await self._apply(key, workload, {"admissionChecks": decided}):
            return
        report = Report(
            door="check",
            action=state.value.lower(),
            answer=answer,
            notice=_make_notice(answer, state),
            since=since,
        )
        self.reporter.note(key, report)
        await self.reporter.recorder.record(owner or workload, report.notice)

    async def _is_our_check(self, name: str) -> bool:
        check = await self.api.get(ObjectKey(resource=CHECKS, namespace=None, name=name))
        return check is not None and _is_ours(check)

    async def _find_owner(self, key: ObjectKey, workload: Json) -> Json | None:
        """Return the job of a Workload, if it is read."""
        for owner in get_metadata(workload).get("ownerReferences") or []:
            for resource in GATED:
                if (owner["apiVersion"], owner["kind"]) == (resource.api_version, resource.kind):
                    return await self.api.get(
                        ObjectKey(resource=resource, namespace=key.namespace, name=owner["name"])
                    )
        return None

    async def _judge(
        self, workload: Json, owner: Json | None, unanswered: int
    ) -> tuple[Answer, list[Json]]:
        """Return the decision about a Workload, and its nodes.

        The first pod set that does not fit decides.
        """
        answer, pins = _NO_GPU, []
        pod_sets = list_pod_sets(workload)
        if owner is not None and _has_lone_pods(owner):
            pod_sets = tuple(replace(pod_set, count=1) for pod_set in pod_sets)
        judged = _ask_as(workload, owner, copies=not says_question(workload, pod_sets))
        for pod_set in pod_sets:
            answer, product = await self._judge_pod_set(judged, pod_sets, pod_set, unanswered)
            if answer.verdict not in _FITTING:
                return answer, []
            if product is not None:
                pins.append({"name": pod_set.name, "nodeSelector": dict([product])})
        return answer, pins

    async def _judge_pod_set(
        self, workload: Json, pod_sets: tuple[PodSet, ...], pod_set: PodSet, unanswered: int
    ) -> tuple[Answer, Product | None]:
        """Return the decision about a pod set, and its pin.

        That is a GPU whose nodes nothing else selects.
        """
        place = find_place(pod_set, await self._read_labels(pod_set.flavor))
        products: Sequence[Product | None] = place.products[:MAX_ALTERNATIVES] or (None,)
        jobs = [make_job_set(workload, pod_sets, pod_set, product) for product in products]
        mode = Mode.WARN if self.unfit is Unfit.WARN else Mode.REFUSE
        answer = await ask_patiently(self.asker, jobs, mode, unanswered, is_placed=True)
        judged = products[answer.choice]
        if place.is_settled:
            return answer, None
        if judged is None and self.pins and answer.gpu is not None:
            judged = find_product(answer.gpu)
        return answer, judged

    async def _read_labels(self, flavor: str | None) -> Json:
        if flavor is None:
            return {}
        document = await self.api.get(ObjectKey(resource=FLAVORS, namespace=None, name=flavor))
        labels: Json = ((document or {}).get("spec") or {}).get("nodeLabels") or {}
        return labels

    def _choose(self, answer: Answer) -> CheckState:
        if answer.allowed:
            return CheckState.READY
        is_rejected = self.unfit is Unfit.REJECT and answer.verdict is not HookVerdict.UNKNOWN
        return CheckState.REJECTED if is_rejected else CheckState.RETRY

    async def _apply(self, key: ObjectKey, document: Json, status: Json) -> bool:
        """Apply a status to the version that was judged alone.

        Returns False where the object is no longer there. Raises KubeError for another version: it
        is looked at again.
        """
        metadata = get_metadata(document)
        named = {
            name: metadata[name]
            for name in ("name", "namespace", "uid", "resourceVersion")
            if name in metadata
        }
        body = {
            "apiVersion": key.resource.api_version,
            "kind": key.resource.kind,
            "metadata": named,
            "status": status,
        }
        try:
            await self.api.apply_status(key, body)
        except KubeError as error:
            if error.code == NOT_FOUND:
                return False
            raise
        return True


def is_pending(workload: Json) -> bool:
    """Return whether a Workload has quota and an open check."""
    status = workload.get("status") or {}
    states: Iterable[Json] = status.get("admissionChecks") or []
    return (
        _find_condition(workload, "QuotaReserved").get("status") == "True"
        and _find_condition(workload, "Finished").get("status") != "True"
        and any(state.get("state") == CheckState.PENDING for state in states)
    )


def _is_ours(check: Json) -> bool:
    return bool((check.get("spec") or {}).get("controllerName") == CONTROLLER)


def _find_condition(document: Json, word: str) -> Json:
    conditions = (document.get("status") or {}).get("conditions") or []
    condition: Json = next((entry for entry in conditions if entry.get("type") == word), {})
    return condition


def _has_lone_pods(owner: Json) -> bool:
    """Return whether pods are judged one by one, as hooks do."""
    mode = (owner.get("spec") or {}).get("completionMode")
    return owner.get("kind") == JOBS.kind and mode != "Indexed"


def _ask_as(workload: Json, owner: Json | None, *, copies: bool) -> Json:
    """Return a Workload under the name of its job.

    Its pods are known by that. ``copies`` gives it the job's question too, which Kueue does not
    copy.
    """
    if owner is None:
        return workload
    metadata, names = get_metadata(workload), get_metadata(owner)
    note = (names.get("annotations") or {}).get(ANNOTATION) if copies else None
    annotations = {
        **(metadata.get("annotations") or {}),
        **({} if note is None else {ANNOTATION: note}),
    }
    named = {**metadata, "name": names["name"], "annotations": annotations}
    return {**workload, "metadata": named}


def _make_state(before: Json, state: CheckState, answer: Answer, pins: list[Json]) -> Json:
    retries = int(before.get("retryCount") or 0)
    return {
        "name": before["name"],
        "state": state.value,
        "message": answer.sentence,
        "lastTransitionTime": format_time(datetime.now(UTC)),
        **({"podSetUpdates": pins} if state is CheckState.READY and pins else {}),
        **({"requeueAfterSeconds": get_retry_s(retries)} if state is CheckState.RETRY else {}),
    }


def get_retry_s(retries: int) -> int:
    """Return the pause before a Workload is tried again."""
    return min(_RETRY_S << min(retries, _MAX_DOUBLINGS), _MAX_RETRY_S)


def _make_notice(answer: Answer, state: CheckState) -> Notice:
    return Notice(
        reason=f"HeadroomCheck{state.value}",
        sentence=answer.sentence,
        is_warning=state is not CheckState.READY
        or answer.verdict not in {HookVerdict.FITS, HookVerdict.NONE},
    )
