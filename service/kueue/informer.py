"""Lists that are watched, and read anew again and again.

What a watch missed, the next list has: nothing depends on an event.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio

from service.kueue.api import Json, KubeApi, Resource
from service.kueue.errors import GONE, NOT_FOUND, KubeError
from service.kueue.queue import FIRST_PAUSE_S, get_pause_s
from service.runtime.logs import get_logger

MAX_PAUSE_S = 60.0

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Informer:
    """List of one resource.

    ``observe`` is shown each object whenever it may have changed.
    """

    api: KubeApi
    resource: Resource
    observe: Callable[[Json], None]
    resync_s: float
    namespace: str | None = None
    selector: str | None = None
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep

    async def run(self) -> None:
        """List and watch until cancelled."""
        failures = 0
        while True:
            try:
                await self.run_round()
            except KubeError as error:
                pause_s = self._get_pause_s(error, failures)
                failures += 1
                self._tell(error, pause_s)
            else:
                failures, pause_s = 0, FIRST_PAUSE_S
            await self.sleep(pause_s)

    async def run_round(self) -> None:
        """List once, and watch until the next list is due.

        Raises KubeError where the API does not answer, or has forgotten the version of the list.
        """
        items, version = await self.api.list_all(self.resource, self.namespace, self.selector)
        for item in items:
            self.observe(item)
        changes = self.api.watch(
            self.resource,
            self.namespace,
            version=version,
            selector=self.selector,
            timeout_s=self.resync_s,
        )
        async for change in changes:
            if change.word in {"ADDED", "MODIFIED"}:
                self.observe(change.document)

    def _get_pause_s(self, error: KubeError, failures: int) -> float:
        """Return the pause after a failure.

        A resource that is not installed may be later, which has time.
        """
        if error.code == NOT_FOUND:
            return self.resync_s
        return get_pause_s(failures, MAX_PAUSE_S)

    def _tell(self, error: KubeError, pause_s: float) -> None:
        tell = _log.info if error.code in {NOT_FOUND, GONE} else _log.warning
        tell(
            "kueue.listed_again",
            resource=f"{self.resource.plural}.{self.resource.group}",
            code=error.code,
            pause_s=pause_s,
            reason=error.detail,
        )
