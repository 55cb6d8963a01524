"""Questions to a Headroom server, by its hook for Kueue.

They are about objects that are stored. The server decides as it does for every other door: with its
stored models, its corrections and its limits. So this process needs neither a database nor an
estimator, and a job is never told two things.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import httpx

from service.kueue.api import Json, get_metadata
from service.kueue.breaker import Breaker
from service.kueue.errors import AskError, SilentError
from service.usecases.hooks.decision import UNKNOWN, Action, HookVerdict, Mode

TIMEOUT_S = 10.0
"""For an answer; the server's own deadline of hooks is shorter (HEADROOM_HOOK_DEADLINE_S)."""
_SHOWN = 200
_UNSHOWN = ("managedFields", "ownerReferences")
"""Members of the metadata that say nothing of the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A decision about an object.

    ``choice`` is its place among the alternatives of the question; ``gpu`` the SKU that it was made
    for; ``operations`` are a JSON patch that gives the object the GPUs that it needs, empty where
    it keeps its own.
    """

    allowed: bool
    verdict: HookVerdict
    sentence: str = ""
    gpu: str | None = None
    operations: tuple[Json, ...] = ()
    choice: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """A server, by a client whose base is its address."""

    client: httpx.AsyncClient
    fails_closed: bool = False
    """Whether what cannot be said is refused, also by a server that lets it pass."""
    breaker: Breaker = field(default_factory=Breaker)

    async def ask(
        self,
        alternatives: Sequence[Json],
        mode: Mode,
        *,
        is_placed: bool = False,
        is_last: bool = False,
    ) -> Answer:
        """Return the decision about an object.

        Of one that may get several kinds of GPUs there is an alternative for each. ``is_placed``
        says that it runs on the kind that it selects, also where its question names another, and
        ``is_last`` that nobody asks again.

        Raises AskError where the server does not answer, or may say more at another try.
        """
        body = {
            "objects": [_strip(document) for document in alternatives],
            "fails_closed": self.fails_closed,
            "is_placed": is_placed,
            "is_last": is_last,
        }
        path = f"/v1/hooks/kueue/{mode.value}"
        async with self.breaker.guard():
            try:
                answer = await self.client.post(path, json=body)
            except httpx.HTTPError as error:
                message = (
                    f"{self.client.base_url} does not answer: {str(error) or type(error).__name__}"
                )
                raise SilentError(message) from error
        if answer.status_code == httpx.codes.NOT_FOUND:
            message = (
                f"{self.client.base_url} has no {path}: it is older than this controller, or no "
                "Headroom; upgrade the server first"
            )
            raise AskError(message)
        if not answer.is_success:
            message = f"{self.client.base_url} answers {answer.status_code}: {_get_reason(answer)}"
            raise AskError(message)
        try:
            decided = answer.json()
            decision, is_transient = (
                _read_answer(decided, len(alternatives)),
                decided["is_transient"],
            )
        except (AttributeError, ValueError, KeyError, TypeError) as error:
            message = f"{self.client.base_url} answers something else than a decision: {error!r}"
            raise AskError(message) from error
        if is_transient:
            why = decision.sentence.removeprefix(UNKNOWN)
            message = f"{self.client.base_url} may say more at another try: {why}"
            raise AskError(message)
        return decision


def connect_to_server(url: str, headers: Mapping[str, str]) -> httpx.AsyncClient:
    """Return a client of a server; the caller closes it."""
    return httpx.AsyncClient(base_url=url, headers=headers, timeout=TIMEOUT_S)


def _strip(document: Json) -> Json:
    """Return an object without what says nothing of the job."""
    metadata = get_metadata(document)
    visible = {name: value for name, value in metadata.items() if name not in _UNSHOWN}
    stripped = {name: value for name, value in document.items() if name != "status"}
    return {**stripped, "metadata": visible}


def _read_answer(decided: Json, num_alternatives: int) -> Answer:
    choice = decided["choice"]
    if not 0 <= choice < num_alternatives:
        message = f"choice {choice} of {num_alternatives} alternatives"
        raise ValueError(message)
    return Answer(
        allowed=Action(decided["action"]) is not Action.REFUSE,
        verdict=HookVerdict(decided["verdict"]),
        sentence=str(decided["sentence"]),
        gpu=decided["gpu"],
        operations=tuple(decided["operations"]),
        choice=choice,
    )


def _get_reason(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["detail"])[:_SHOWN]
    except (ValueError, KeyError, TypeError):
        return answer.text[:_SHOWN]
