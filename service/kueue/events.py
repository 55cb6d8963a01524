"""Events that the users of jobs read, each once."""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime

from service.kueue.api import Json, KubeApi, format_time, get_metadata
from service.kueue.resources import EVENTS

REPORTER = "headroom.dev/kueue"
_MAX_NOTE, _MAX_NAME = 1024, 230
_MAX_INSTANCE = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Sentence for whoever looks at an object.

    ``reason`` is one word in CamelCase.
    """

    reason: str
    sentence: str
    is_warning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorder:
    """Writer of events; ``instance`` is the process that writes."""

    api: KubeApi
    instance: str

    async def record(self, document: Json, notice: Notice) -> bool:
        """Record a notice; return whether it is new.

        The name of the event follows from the object and the notice: the same is never told twice,
        by this process or another, while the cluster keeps events (an hour, by default).
        """
        metadata = get_metadata(document)
        about = f"{metadata.get('uid')} {notice.reason} {notice.sentence}"
        digest = hashlib.sha256(about.encode()).hexdigest()[:16]
        namespace = str(metadata.get("namespace") or "default")
        body = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {
                "name": f"{str(metadata.get('name'))[:_MAX_NAME]}.{digest}",
                "namespace": namespace,
            },
            "eventTime": format_time(datetime.now(UTC)),
            "reportingController": REPORTER,
            "reportingInstance": self.instance[:_MAX_INSTANCE],
            "action": "Decide",
            "reason": notice.reason,
            "regarding": {
                "apiVersion": document.get("apiVersion"),
                "kind": document.get("kind"),
                "name": metadata.get("name"),
                "namespace": namespace,
                "uid": metadata.get("uid"),
            },
            "note": notice.sentence[:_MAX_NOTE],
            "type": "Warning" if notice.is_warning else "Normal",
        }
        return await self.api.create(EVENTS, namespace, body)
