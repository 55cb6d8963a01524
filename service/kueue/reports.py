"""Reports of decisions: event, log line and metric."""

from dataclasses import dataclass

import anyio

from service.kueue.api import Json, ObjectKey
from service.kueue.asking import Answer
from service.kueue.events import Notice, Recorder
from service.kueue.metrics import Metrics
from service.runtime.logs import get_logger

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A decision about an object, as it is told.

    ``action`` is the metric's word for it; ``since`` when the object was looked at.
    """

    door: str
    action: str
    answer: Answer
    notice: Notice
    since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reporter:
    """Teller of decisions."""

    recorder: Recorder
    metrics: Metrics

    async def tell(self, key: ObjectKey, document: Json, report: Report) -> bool:
        """Tell of a decision, unless it was told before.

        Returns whether it is new. Raises KubeError where the API takes no event.
        """
        is_new = await self.recorder.record(document, report.notice)
        if is_new:
            self.note(key, report)
        return is_new

    def note(self, key: ObjectKey, report: Report) -> None:
        """Log and count a decision."""
        verdict = report.answer.verdict.value
        self.metrics.count(report.door, verdict, report.action, anyio.current_time() - report.since)
        _log.info(
            "kueue.decided",
            door=report.door,
            kind=key.resource.kind,
            namespace=key.namespace,
            name=key.name,
            verdict=verdict,
            action=report.action,
            sentence=report.notice.sentence,
        )
