"""Stored resources: models, clusters and reservations.

They are changed only by whoever has seen the version that is there.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, Protocol, TypeVar
from uuid import uuid4

from service.client.asking import Plain, build_body, to_json
from service.client.generated.api.clusters import (
    create_cluster,
    delete_cluster,
    import_cluster,
    list_clusters,
    read_cluster,
    replace_cluster,
)
from service.client.generated.api.models import (
    create_model,
    delete_model,
    list_models,
    read_model,
    replace_model,
)
from service.client.generated.api.reservations import (
    change_reservation,
    create_reservation,
    list_reservations,
    read_reservation,
    release_reservation,
)
from service.client.generated.models import (
    ClusterAnswer,
    ClusterCreate,
    ClusterImportAnswer,
    ClusterImportRequest,
    ClusterReplace,
    ModelAnswer,
    ModelItem,
    ModelSource,
    PlacedAnswer,
    ReservationAnswer,
    ShareRequest,
)
from service.client.generated.types import UNSET, Call, Unset
from service.client.retrying import Repeat
from service.client.transport import Received, Transport

PAGE = 200
"""Items of one page of a list, the most that the server sends."""
T = TypeVar("T")
Item_co = TypeVar("Item_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored(Generic[T]):
    """Resource with its version.

    A change of it goes through only while ``etag`` is what the server has.
    """

    value: T
    etag: str


class Page(Protocol[Item_co]):
    """One page of a list."""

    @property
    def items(self) -> Sequence[Item_co]:
        """The items of this page."""

    @property
    def next_cursor(self) -> str | None:
        """Cursor of the next page."""


def iter_items(
    transport: Transport, page_after: Callable[[str | Unset], Call[Page[T]]]
) -> Iterator[T]:
    """Yield the items of all pages, each page when it is needed."""
    cursor: str | Unset = UNSET
    while True:
        page = transport.send(page_after(cursor), Repeat.ALWAYS).value
        yield from page.items
        if page.next_cursor is None:
            return
        cursor = page.next_cursor


def _to_stored(received: Received[T]) -> Stored[T]:
    return Stored(value=received.value, etag=received.etag or "*")


class Models:
    """Stored models and those of the catalogue."""

    def __init__(self, transport: Transport) -> None:
        """Work through ``transport``."""
        self._transport = transport

    def list(self) -> Iterator[ModelItem]:
        """Yield every model, newest first, then the catalogue."""
        return iter_items(
            self._transport, lambda cursor: list_models.call(limit=PAGE, cursor=cursor)
        )

    def read(self, name: str) -> Stored[ModelAnswer]:
        """Return a model as it is now; raises NotFoundError."""
        return _to_stored(self._transport.send(read_model.call(name), Repeat.ALWAYS))

    def create(self, name: str, source: ModelSource | Plain) -> Stored[ModelAnswer]:
        """Store a model under a new name.

        Raises ConflictError for a name that is taken.
        """
        call = create_model.call(body=build_body(name=name, source=source))
        return _to_stored(self._transport.send(call, Repeat.IF_NOT_DONE))

    def replace(
        self, seen: Stored[ModelAnswer], source: ModelSource | Plain
    ) -> Stored[ModelAnswer]:
        """Store a new revision in place of the seen one.

        Raises StaleError when another one is there.
        """
        call = replace_model.call(
            seen.value.name, body=build_body(source=source), if_match=seen.etag
        )
        return _to_stored(self._transport.send(call, Repeat.IF_NOT_DONE))

    def delete(self, seen: Stored[ModelAnswer]) -> None:
        """Delete the revision that was seen.

        Raises StaleError when another one is there.
        """
        self._transport.send(
            delete_model.call(seen.value.name, if_match=seen.etag), Repeat.IF_NOT_DONE
        )


class Clusters:
    """Inventories of GPUs."""

    def __init__(self, transport: Transport) -> None:
        """Work through ``transport``."""
        self._transport = transport

    def list(self) -> Iterator[ClusterAnswer]:
        """Yield every cluster, newest first, without its nodes."""
        return iter_items(
            self._transport, lambda cursor: list_clusters.call(limit=PAGE, cursor=cursor)
        )

    def read(self, name: str) -> Stored[ClusterAnswer]:
        """Return a cluster with what is free on it now.

        Raises NotFoundError.
        """
        return _to_stored(self._transport.send(read_cluster.call(name), Repeat.ALWAYS))

    def create(self, cluster: ClusterCreate | Plain) -> Stored[ClusterAnswer]:
        """Store a cluster; raises ConflictError for a name that is taken."""
        call = create_cluster.call(body=to_json(cluster))
        return _to_stored(self._transport.send(call, Repeat.IF_NOT_DONE))

    def replace(
        self, seen: Stored[ClusterAnswer], cluster: ClusterReplace | Plain
    ) -> Stored[ClusterAnswer]:
        """Store an inventory in place of the seen one.

        Raises StaleError when another one is there.
        """
        call = replace_cluster.call(seen.value.name, body=to_json(cluster), if_match=seen.etag)
        return _to_stored(self._transport.send(call, Repeat.IF_NOT_DONE))

    def import_nodes(
        self,
        name: str,
        listing: ClusterImportRequest | Plain,
        *,
        seen: Stored[ClusterImportAnswer] | Stored[ClusterAnswer] | None = None,
    ) -> Stored[ClusterImportAnswer]:
        """Show what another tool's listing changes, and store it with its ``apply``.

        ``seen`` is the answer without ``apply``, or the cluster. Raises StaleError when another
        version is there.
        """
        value = None if seen is None else seen.value
        is_new = isinstance(value, ClusterImportAnswer) and value.created and not value.applied
        etag = UNSET if seen is None or is_new else seen.etag
        call = import_cluster.call(name, body=to_json(listing), if_match=etag)
        return _to_stored(self._transport.send(call, Repeat.IF_NOT_DONE))

    def delete(self, seen: Stored[ClusterAnswer], *, end_reservations: bool = False) -> None:
        """Delete the inventory that was seen.

        Raises StaleError when another one is there, ConflictError while it is reserved.
        ``end_reservations`` ends what is reserved on it as well.
        """
        parameters = {"end_reservations": True} if end_reservations else {}
        self._transport.send(
            delete_cluster.call(seen.value.name, if_match=seen.etag, **parameters),
            Repeat.IF_NOT_DONE,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Until:
    """End of a reservation.

    So many seconds from now, or at a time; exactly one of them.
    """

    seconds: int | None = None
    at: datetime | None = None

    def __post_init__(self) -> None:
        """Refuse no end, two ends, and a time without zone."""
        if (self.seconds is None) == (self.at is None):
            message = f"seconds is {self.seconds}, at is {self.at}; give exactly one of them"
            raise ValueError(message)
        if self.at is not None and self.at.tzinfo is None:
            message = f"at is {self.at}, which has no time zone"
            raise ValueError(message)


class Reservations:
    """GPUs of one cluster that are promised for a time."""

    def __init__(self, transport: Transport, cluster: str) -> None:
        """Work through ``transport`` on the cluster of this name."""
        self._transport = transport
        self._cluster = cluster

    def list(self) -> Iterator[ReservationAnswer]:
        """Yield every reservation that lives, newest first."""
        return iter_items(
            self._transport,
            lambda cursor: list_reservations.call(self._cluster, limit=PAGE, cursor=cursor),
        )

    def read(self, reservation_id: str) -> Stored[ReservationAnswer]:
        """Return a reservation that lives; raises NotFoundError."""
        return _to_stored(
            self._transport.send(
                read_reservation.call(self._cluster, reservation_id), Repeat.ALWAYS
            ),
        )

    def create(
        self,
        holder: str,
        *,
        until: Until,
        gpus: Sequence[ShareRequest | Plain] | None = None,
        placement: PlacedAnswer | Plain | None = None,
        idempotency_key: str | None = None,
    ) -> Stored[ReservationAnswer]:
        """Reserve GPUs, all of them or none.

        By pool and node, or the placement of a plan's candidate. Raises ConflictError when they are
        not free. The same key asks for the same reservation again.
        """
        body = build_body(
            holder=holder,
            gpus=gpus,
            placement=placement,
            expires_in_s=until.seconds,
            expires_at=None if until.at is None else until.at.isoformat(),
        )
        call = create_reservation.call(
            self._cluster, body=body, idempotency_key=idempotency_key or str(uuid4())
        )
        return _to_stored(self._transport.send(call, Repeat.ALWAYS))

    def extend(self, seen: Stored[ReservationAnswer], until: Until) -> Stored[ReservationAnswer]:
        """Give a reservation that lives another end; raises StaleError."""
        end = None if until.at is None else until.at.isoformat()
        body = build_body(expires_in_s=until.seconds, expires_at=end)
        call = change_reservation.call(self._cluster, seen.value.id, body=body, if_match=seen.etag)
        return _to_stored(self._transport.send(call, Repeat.IF_NOT_DONE))

    def release(self, seen: Stored[ReservationAnswer]) -> None:
        """Release a reservation: its GPUs are free at once."""
        call = release_reservation.call(self._cluster, seen.value.id, if_match=seen.etag)
        self._transport.send(call, Repeat.IF_NOT_DONE)
