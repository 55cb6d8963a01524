"""Controller of gates and checks, while this process leads."""

from dataclasses import dataclass, field

import anyio

from service.formats.manifests.kueue import QUEUE_LABEL
from service.kueue.api import Json, KubeApi, ObjectKey, Resource, get_metadata
from service.kueue.checks import CheckKeeper, is_pending
from service.kueue.gates import GateKeeper, is_waiting
from service.kueue.informer import Informer
from service.kueue.lease import Elector
from service.kueue.queue import WorkQueue
from service.kueue.resources import CHECKS, GATED, WORKLOADS

RESYNC_S = 300.0
"""Between two lists of everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Controller:
    """Keepers of gates and checks; either may be absent.

    ``namespace`` restricts both to one; AdmissionChecks belong to none.
    """

    api: KubeApi
    elector: Elector
    gates: GateKeeper | None
    checks: CheckKeeper | None
    namespace: str | None = None
    resync_s: float = field(default=RESYNC_S)

    async def run(self) -> None:
        """Stand for election, and act while elected, until cancelled."""
        await self.elector.run(self.lead)

    async def lead(self) -> None:
        """Look at everything once, and at what changes, until cancelled."""
        # Nothing is taken over from an earlier term: the first lists show what there is.
        async with anyio.create_task_group() as group:
            if self.gates is not None:
                queue = WorkQueue()
                group.start_soon(queue.run, self.gates.reconcile)
                for resource in GATED:
                    group.start_soon(self._watch_jobs(resource, queue).run)
            if self.checks is not None:
                queue = WorkQueue()
                group.start_soon(queue.run, self.checks.reconcile)
                for informer in self._watch_workloads(queue):
                    group.start_soon(informer.run)

    def _watch_jobs(self, resource: Resource, queue: WorkQueue) -> Informer:
        def observe(job: Json) -> None:
            if is_waiting(job):
                queue.add(_make_key(resource, job))

        return Informer(
            api=self.api,
            resource=resource,
            observe=observe,
            resync_s=self.resync_s,
            namespace=self.namespace,
            # Kueue manages what has a queue; it adds the label of a default one itself.
            selector=QUEUE_LABEL,
        )

    def _watch_workloads(self, queue: WorkQueue) -> tuple[Informer, Informer]:
        def observe_check(check: Json) -> None:
            queue.add(_make_key(CHECKS, check))

        def observe_workload(workload: Json) -> None:
            if is_pending(workload):
                queue.add(_make_key(WORKLOADS, workload))

        return (
            Informer(api=self.api, resource=CHECKS, observe=observe_check, resync_s=self.resync_s),
            Informer(
                api=self.api,
                resource=WORKLOADS,
                observe=observe_workload,
                resync_s=self.resync_s,
                namespace=self.namespace,
            ),
        )


def _make_key(resource: Resource, document: Json) -> ObjectKey:
    metadata = get_metadata(document)
    return ObjectKey(
        resource=resource, namespace=metadata.get("namespace"), name=str(metadata["name"])
    )
