from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.action import Action, check_action
from ..models.hook_verdict import HookVerdict, check_hook_verdict
from ..models.mode import Mode, check_mode

T = TypeVar("T", bound="DecisionAnswer")


@_attrs_define
class DecisionAnswer:
    """A decision about a submitted job: who asked what, and what its user read.

    Attributes:
        at (str): When it was decided, RFC 3339, UTC.
        last_at (str): When it was last decided again, where a scheduler repeats itself.
        num_times (int): How many times, 1 where nobody repeats himself.
        door (str): The scheduler that asked.
        mode (Mode): Permission of a hook about a job that does not fit.

            ``warn`` lets it pass and says so, ``refuse`` refuses it, ``change`` gives it the GPUs that it needs where the
            scheduler lets a hook do that, and refuses it elsewhere.
        user (None | str): Who submitted the job; null where unknown.
        queue (None | str): Its namespace, account, project or partition; null where unknown.
        job (None | str): Name of the job; null where it has none.
        principal (str): Whose key the scheduler has, or `local`.
        key_id (None | str): Id of the key; null where none was used.
        request_id (str): `X-Request-Id` of the answer.
        question (None | str): Digest of the question, of which GET /v1/hooks/questions/{digest} has the text; null
            where nothing was understood.
        gpu (None | str): The GPU that it was answered for; null if none.
        verdict (HookVerdict): Verdict on a submitted job.

            ``none`` where it asks for no GPU and no question.
        action (Action): Outcome of a hook for a job.
        needed_bytes (int | None): Bytes of one GPU that it needs, at most where it fits; null if unknown.
        usable_bytes (int | None): Bytes of one GPU that it may use; null if unknown.
        sentence (str): The line that the user read; empty where none.
    """

    at: str
    last_at: str
    num_times: int
    door: str
    mode: Mode
    user: None | str
    queue: None | str
    job: None | str
    principal: str
    key_id: None | str
    request_id: str
    question: None | str
    gpu: None | str
    verdict: HookVerdict
    action: Action
    needed_bytes: int | None
    usable_bytes: int | None
    sentence: str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        at = self.at

        last_at = self.last_at

        num_times = self.num_times

        door = self.door

        mode: str = self.mode

        user: None | str
        user = self.user

        queue: None | str
        queue = self.queue

        job: None | str
        job = self.job

        principal = self.principal

        key_id: None | str
        key_id = self.key_id

        request_id = self.request_id

        question: None | str
        question = self.question

        gpu: None | str
        gpu = self.gpu

        verdict: str = self.verdict

        action: str = self.action

        needed_bytes: int | None
        needed_bytes = self.needed_bytes

        usable_bytes: int | None
        usable_bytes = self.usable_bytes

        sentence = self.sentence

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "at": at,
                "last_at": last_at,
                "num_times": num_times,
                "door": door,
                "mode": mode,
                "user": user,
                "queue": queue,
                "job": job,
                "principal": principal,
                "key_id": key_id,
                "request_id": request_id,
                "question": question,
                "gpu": gpu,
                "verdict": verdict,
                "action": action,
                "needed_bytes": needed_bytes,
                "usable_bytes": usable_bytes,
                "sentence": sentence,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        at = d.pop("at")

        last_at = d.pop("last_at")

        num_times = d.pop("num_times")

        door = d.pop("door")

        mode = check_mode(d.pop("mode"))

        def _parse_user(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        user = _parse_user(d.pop("user"))

        def _parse_queue(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        queue = _parse_queue(d.pop("queue"))

        def _parse_job(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        job = _parse_job(d.pop("job"))

        principal = d.pop("principal")

        def _parse_key_id(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        key_id = _parse_key_id(d.pop("key_id"))

        request_id = d.pop("request_id")

        def _parse_question(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        question = _parse_question(d.pop("question"))

        def _parse_gpu(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        gpu = _parse_gpu(d.pop("gpu"))

        verdict = check_hook_verdict(d.pop("verdict"))

        action = check_action(d.pop("action"))

        def _parse_needed_bytes(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        needed_bytes = _parse_needed_bytes(d.pop("needed_bytes"))

        def _parse_usable_bytes(data: object) -> int | None:
            if data is None:
                return data
            return cast(int | None, data)

        usable_bytes = _parse_usable_bytes(d.pop("usable_bytes"))

        sentence = d.pop("sentence")

        decision_answer = cls(
            at=at,
            last_at=last_at,
            num_times=num_times,
            door=door,
            mode=mode,
            user=user,
            queue=queue,
            job=job,
            principal=principal,
            key_id=key_id,
            request_id=request_id,
            question=question,
            gpu=gpu,
            verdict=verdict,
            action=action,
            needed_bytes=needed_bytes,
            usable_bytes=usable_bytes,
            sentence=sentence,
        )

        decision_answer.additional_properties = d
        return decision_answer

    @property
    def additional_keys(self) -> list[str]:
        return list(self.additional_properties.keys())

    def __getitem__(self, key: str) -> Any:
        return self.additional_properties[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.additional_properties[key] = value

    def __delitem__(self, key: str) -> None:
        del self.additional_properties[key]

    def __contains__(self, key: str) -> bool:
        return key in self.additional_properties
