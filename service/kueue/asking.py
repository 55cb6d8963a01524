"""Questions to a Headroom server, by its admission webhook.

They are about objects that are stored. The server decides as it does for every other door: with its
stored models, its corrections and its limits. So this process needs neither a database nor an
estimator, and a job is never told two things.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass

import httpx

from service.kueue.api import Json, get_metadata
from service.kueue.errors import AskError
from service.usecases.hooks.decision import UNKNOWN, HookVerdict, Mode

TIMEOUT_S = 10.0
"""For an answer; the server's own deadline of hooks is shorter (HEADROOM_HOOK_DEADLINE_S)."""
_SHOWN = 200
_UNSHOWN = ("managedFields", "ownerReferences")
"""Members of the metadata that say nothing of the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A decision about an object.

    ``gpu`` is the SKU that it was made for; ``operations`` are a JSON patch that gives the object
    the GPUs that it needs, empty where it keeps its own.
    """

    allowed: bool
    verdict: HookVerdict
    sentence: str = ""
    gpu: str | None = None
    operations: tuple[Json, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """A server, by a client whose base is its address."""

    client: httpx.AsyncClient

    async def ask(self, document: Json, mode: Mode) -> Answer:
        """Return the decision about an object.

        Raises AskError where the server does not answer, or was too busy to.
        """
        try:
            answer = await self.client.post(
                f"/v1/hooks/kubernetes/{mode.value}", json=_make_review(document)
            )
        except httpx.HTTPError as error:
            message = f"{self.client.base_url} does not answer: {error or type(error).__name__}"
            raise AskError(message) from error
        if not answer.is_success:
            message = f"{self.client.base_url} answers {answer.status_code}: {_get_reason(answer)}"
            raise AskError(message)
        try:
            response = answer.json()["response"]
            notes = response.get("auditAnnotations") or {}
            if notes.get("transient") == "true":
                why = str(notes["decision"]).removeprefix(UNKNOWN)
                message = f"{self.client.base_url} is busy: {why}"
                raise AskError(message)
            return _read_response(response, notes)
        except (AttributeError, ValueError, KeyError, TypeError) as error:
            message = f"{self.client.base_url} answers something else than a review: {error!r}"
            raise AskError(message) from error


def connect_to_server(url: str, headers: Mapping[str, str]) -> httpx.AsyncClient:
    """Return a client of a server; the caller closes it."""
    return httpx.AsyncClient(base_url=url, headers=headers, timeout=TIMEOUT_S)


def _make_review(document: Json) -> Json:
    metadata = get_metadata(document)
    visible = {name: value for name, value in metadata.items() if name not in _UNSHOWN}
    reviewed = {name: value for name, value in document.items() if name != "status"}
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": str(metadata.get("uid", "")),
            "operation": "CREATE",
            "namespace": str(metadata.get("namespace", "")),
            "object": {**reviewed, "metadata": visible},
        },
    }


def _read_response(response: Json, notes: Json) -> Answer:
    patch = response.get("patch")
    return Answer(
        allowed=response["allowed"] is True,
        verdict=HookVerdict(notes.get("verdict", HookVerdict.NONE.value)),
        sentence=str(notes.get("decision", "")),
        gpu=notes.get("gpu"),
        operations=() if patch is None else tuple(json.loads(base64.b64decode(patch))),
    )


def _get_reason(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["detail"])[:_SHOWN]
    except (ValueError, KeyError, TypeError):
        return answer.text[:_SHOWN]
