"""Submissions of a bench."""

import time
from dataclasses import replace
from typing import Any

from service.cli.submissions.journal import Entry
from service.cli.submissions.scheduler import Scheduler


def make_entry(submission_id: str, scheduler: Scheduler, document: Any) -> Entry:  # noqa: ANN401 - JSON
    """Return a submission that is being sent."""
    entry = Entry(
        id=submission_id,
        scheduler="any",
        server="http://127.0.0.1",
        cluster="bench",
        holder="bench",
        payload="",
        placement={},
        lease_s=900,
        owner="bench",
        target=scheduler.locate(),
        sent_at=time.time(),
    )
    return replace(entry, payload=scheduler.prepare(document, entry))
