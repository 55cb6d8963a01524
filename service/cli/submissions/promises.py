"""Reservations of submissions, on a server."""

import httpx

from service.base.server_refusals import ServerRefusalError
from service.cli.http import Document, ask, build_path
from service.cli.submissions.journal import Entry

_ENDED = "reservation-ended"
_GONE = frozenset(("reservation-not-found", "cluster-not-found"))


def name_question(client: httpx.Client, question: Document) -> str:
    """Return the digest under which the server keeps a question.

    It is the same for the same question, however often it is asked.
    """
    answer = ask(client, "POST", build_path("hooks", "questions"), body=question)
    return str(answer.json()["digest"])


def reserve(client: httpx.Client, entry: Entry) -> str | None:
    """Reserve what the plan placed; None where this attempt's reservation has ended.

    The key makes it one reservation, however often an attempt is repeated.
    """
    body = {"holder": entry.holder, "placement": entry.placement, "expires_in_s": entry.lease_s}
    headers = {"idempotency-key": f"headroom-submit-{entry.tag}-{entry.attempt}"}
    path = build_path("clusters", entry.cluster, "reservations")
    try:
        return str(ask(client, "POST", path, body=body, headers=headers).json()["id"])
    except ServerRefusalError as error:
        if error.document.get("type") == _ENDED:
            return None
        raise


def extend(client: httpx.Client, entry: Entry) -> bool:
    """Extend a submission's reservation; False where it has ended.

    The server also learns for which job it is.
    """
    body: Document = {"expires_in_s": entry.lease_s}
    if entry.job is not None:
        body["job"] = {"scheduler": entry.scheduler, "id": entry.job}
    return _change(client, "PATCH", entry, body)


def release(client: httpx.Client, entry: Entry) -> None:
    """End a submission's reservation, where it has one that lives."""
    if entry.reservation is not None:
        _change(client, "DELETE", entry, None)


def _change(client: httpx.Client, method: str, entry: Entry, body: Document | None) -> bool:
    path = build_path("clusters", entry.cluster, "reservations", str(entry.reservation))
    try:
        # Nobody else changes it, and what a dead process has seen of it is of no interest.
        ask(client, method, path, body=body, headers={"if-match": "*"})
    except ServerRefusalError as error:
        if error.document.get("type") in _GONE:
            return False
        raise
    return True
