"""Requests and answers of /v1/keys and /v1/audit."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from service.access.keys import NAME_PATTERN, Scope
from service.access.limits import PATTERN
from service.contract.schemas.fields import Answer, Strict

_LIMIT = Annotated[str, Meta(pattern=rf"^{PATTERN}$(?!\n)", examples=["600/minute"])]
KeyName = Annotated[
    str,
    Meta(
        pattern=rf"^{NAME_PATTERN}$(?!\n)",
        description="Who or what holds the key; several keys may share a name, and none is named "
        "like one who has no key: "
        "`local`, `anybody`, `nobody`, `command line`, `oidc:…`.",
        examples=["slurm-scheduler"],
    ),
]
KeyId = Annotated[
    str,
    Meta(
        pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$(?!\n)",
        description="Id of a key.",
        examples=["3f0f2c9e-6a43-4c0e-9a52-1d5f6a2f7a10"],
    ),
]
Scopes = Annotated[
    tuple[Scope, ...],
    Meta(
        min_length=1,
        max_length=4,
        description="`admin` may do all; `plan` and `measure` may also read.",
    ),
]
MAX_LIFE_S = 10 * 366 * 86_400


class KeyRequest(Strict, frozen=True, kw_only=True):
    """A key to make."""

    name: KeyName
    scopes: Scopes
    expires_in_s: (
        Annotated[
            int,
            Meta(
                ge=1,
                le=MAX_LIFE_S,
                description="Seconds until it ends; without it the key lives until it is revoked.",
            ),
        ]
        | UnsetType
    ) = UNSET
    rate: Annotated[_LIMIT, Meta(description="How often it may ask.")] | UnsetType = UNSET
    quota: (
        Annotated[_LIMIT, Meta(description="How many measurements it may ask for.")] | UnsetType
    ) = UNSET


class KeyAnswer(Answer, frozen=True, kw_only=True):
    """A key without its secret."""

    id: str
    name: str
    prefix: str
    scopes: list[str]
    state: str
    created_at: str
    created_by: str
    expires_at: str | None
    revoked_at: str | None
    last_used_at: str | None
    rate: str | None
    quota: str | None


class NewKeyAnswer(KeyAnswer, frozen=True, kw_only=True):
    """A key that was just made; ``key`` is shown this once."""

    key: str


class KeyPage(Answer, frozen=True, kw_only=True):
    """One page of keys."""

    items: list[KeyAnswer]
    next_cursor: str | None


class ChangeAnswer(Answer, frozen=True, kw_only=True):
    """Who asked for which change, and how it was answered."""

    at: str
    principal: str
    key_id: str | None
    operation: str
    method: str
    path: str
    status: int
    request_id: str
    peer: str | None


class ChangePage(Answer, frozen=True, kw_only=True):
    """One page of changes."""

    items: list[ChangeAnswer]
    next_cursor: str | None
