"""Arguments of tools that are no request of the contract."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from service.contract.schemas.fields import IdempotencyKey, Name, ReservationId, Strict
from service.contract.schemas.reservations import ReservationRequest


class ListArguments(Strict, frozen=True, kw_only=True):
    """Kind of a list, and which of its items."""

    kind: Annotated[
        Literal["models", "gpus", "clusters", "families"],
        Meta(
            description=(
                "`models` and `gpus` that questions may name, `clusters` that are stored, "
                "`families` of models with what is modelled of each."
            )
        ),
    ]
    contains: Annotated[
        Annotated[str, Meta(max_length=128)] | UnsetType,
        Meta(description="Only those in whose names this is, in any case."),
    ] = UNSET
    limit: Annotated[int, Meta(ge=1, le=200, description="How many at most.")] = 50


class ReserveArguments(ReservationRequest, frozen=True, kw_only=True):
    """GPUs of a cluster to reserve, all of them or none."""

    cluster: Annotated[Name, Meta(description="The cluster.")]
    idempotency_key: Annotated[
        IdempotencyKey | UnsetType, Meta(description="The same key reserves once.")
    ] = UNSET


class ReleaseArguments(Strict, frozen=True, kw_only=True):
    """A reservation to end."""

    cluster: Annotated[Name, Meta(description="The cluster.")]
    id: Annotated[ReservationId, Meta(description="Id of the reservation.")]
