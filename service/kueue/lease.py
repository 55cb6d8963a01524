"""Election of the replica that acts, by a Lease.

As client-go's ``leaderelection`` does it: a lease counts from when this process saw it change, by
its own clock, so that clocks of nodes need not agree.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime

import anyio

from service.kueue.api import Json, KubeApi, ObjectKey, format_time, get_metadata
from service.kueue.errors import CONFLICT, KubeError
from service.kueue.resources import LEASES
from service.runtime.logs import get_logger

DURATION_S, DEADLINE_S, RETRY_S = 15.0, 10.0, 2.0
"""How long a lease holds, how long its holder tries to renew it, and how often; client-go's."""

Lead = Callable[[], Coroutine[None, None, None]]
"""Acts until it is cancelled."""

_log = get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class Elector:
    """A candidate; ``identity`` is of one process alone."""

    api: KubeApi
    namespace: str
    name: str
    identity: str
    on_change: Callable[[bool], None] = field(default=lambda _leads: None)
    _seen: tuple[str, float] = ("", 0.0)
    """Version of the lease, and when it was first seen."""
    _renewed_at: float | None = None

    async def run(self, lead: Lead) -> None:
        """Run ``lead`` whenever this process leads, until cancelled.

        It is cancelled before another process may take the lease.
        """
        try:
            while True:
                await self.tick()
                if self.leads():
                    await self._lead(lead)
                await anyio.sleep(RETRY_S)
        finally:
            with anyio.CancelScope(shield=True):
                await self.release()

    def leads(self) -> bool:
        """Return whether this process holds a fresh lease."""
        renewed_at = self._renewed_at
        return renewed_at is not None and anyio.current_time() - renewed_at < DEADLINE_S

    async def tick(self) -> None:
        """Take or renew the lease, if it may be had."""
        with anyio.move_on_after(DEADLINE_S / 2):
            try:
                began = anyio.current_time()
                if await self._try():
                    self._renewed_at = began
                else:
                    self._renewed_at = None
            except KubeError as error:
                _log.warning("kueue.lease_failed", reason=error.detail)

    async def release(self) -> None:
        """Give the lease up, so that nobody waits for it."""
        if self._renewed_at is None:
            return
        self._renewed_at = None
        with anyio.move_on_after(RETRY_S):
            try:
                lease = await self.api.get(self._key)
                if lease is not None and _get_holder(lease) == self.identity:
                    spec = {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
                    await self.api.replace(self._key, {**lease, "spec": spec})
            except KubeError as error:
                _log.warning("kueue.lease_failed", reason=error.detail)

    @property
    def _key(self) -> ObjectKey:
        return ObjectKey(resource=LEASES, namespace=self.namespace, name=self.name)

    async def _lead(self, lead: Lead) -> None:
        _log.info("kueue.leading", identity=self.identity)
        self.on_change(True)  # noqa: FBT003 - a callback of one flag
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(lead)
                while self._renewed_at is not None:
                    # Also where a request hangs: another process may take the lease after it.
                    group.cancel_scope.deadline = self._renewed_at + DEADLINE_S
                    await anyio.sleep(RETRY_S)
                    await self.tick()
                group.cancel_scope.cancel()
        finally:
            self.on_change(False)  # noqa: FBT003 - as above
            _log.info("kueue.not_leading", identity=self.identity)

    async def _try(self) -> bool:
        """Return whether the lease is ours now."""
        lease = await self.api.get(self._key)
        if lease is None:
            body = {
                "apiVersion": LEASES.api_version,
                "kind": LEASES.kind,
                "metadata": {"name": self.name, "namespace": self.namespace},
                "spec": self._make_spec({}),
            }
            return await self.api.create(LEASES, self.namespace, body)
        if not self._may_take(lease):
            return False
        try:
            spec = self._make_spec(lease.get("spec") or {})
            await self.api.replace(self._key, {**lease, "spec": spec})
        except KubeError as error:
            if error.code == CONFLICT:
                return False
            raise
        return True

    def _may_take(self, lease: Json) -> bool:
        version, now = str(get_metadata(lease).get("resourceVersion")), anyio.current_time()
        if version != self._seen[0]:
            self._seen = (version, now)
        holder = _get_holder(lease)
        lasts_s = float((lease.get("spec") or {}).get("leaseDurationSeconds") or DURATION_S)
        return holder in {"", self.identity} or now - self._seen[1] > lasts_s

    def _make_spec(self, spec: Json) -> Json:
        now = format_time(datetime.now(UTC))
        is_ours = spec.get("holderIdentity") == self.identity
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": int(DURATION_S),
            "acquireTime": spec.get("acquireTime") if is_ours else now,
            "renewTime": now,
            "leaseTransitions": int(spec.get("leaseTransitions") or 0) + (0 if is_ours else 1),
        }


def _get_holder(lease: Json) -> str:
    return str((lease.get("spec") or {}).get("holderIdentity") or "")
