"""Submissions of a bench."""

import time

from service.cli.submissions.journal import Entry


def make_entry(submission_id: str, payload: str) -> Entry:
    """Return a submission that is being sent."""
    return Entry(
        id=submission_id,
        scheduler="any",
        server="http://127.0.0.1",
        cluster="bench",
        holder="bench",
        payload=payload,
        placement={},
        lease_s=900,
        sent_at=time.time(),
    )
