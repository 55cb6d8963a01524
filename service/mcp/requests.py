"""Calls of tools as requests of the HTTP API."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import uuid4

from service.mcp.asking import Call, Document

_PAGE = 200
POSTED = {
    "fit": "/v1/fit",
    "how_many": "/v1/how-many",
    "plan": "/v1/plans",
    "explain": "/v1/explain",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """One request of the API."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Document | None = None


def build_request(call: Call, *, cursor: str | None = None) -> HttpRequest:
    """Return the request of a call.

    Of a list it is the page at ``cursor``.
    """
    document = dict(call.document)
    match call.operation:
        case "fit" | "how_many" | "plan" | "explain":
            return HttpRequest(method="POST", path=POSTED[call.operation], body=document)
        case "list":
            page = {"limit": str(_PAGE)} | ({} if cursor is None else {"cursor": cursor})
            return HttpRequest(method="GET", path=f"/v1/{document['kind']}", query=page)
        case "reserve":
            path = f"/v1/clusters/{document.pop('cluster')}/reservations"
            key = document.pop("idempotency_key", None) or str(uuid4())
            headers = {"idempotency-key": str(key)}
            return HttpRequest(method="POST", path=path, headers=headers, body=document)
        case _:
            path = f"/v1/clusters/{document['cluster']}/reservations/{document['id']}"
            return HttpRequest(method="DELETE", path=path, headers={"if-match": "*"})
