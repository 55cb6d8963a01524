"""Questions of pods, by what the admission webhook decided about their owners.

A node knows a pod's name and nothing of who made it; the decision was made before the pod was, and
a name is one object's at a time.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from service.base.errors import InvalidRequestError, NotFoundError
from service.db.queries import hooks as queries
from service.db.session import transaction
from service.formats.submissions.pod_names import list_owner_names
from service.usecases.hooks.log import find_question
from service.usecases.stored import Sessions


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod, and when it ran."""

    namespace: str
    name: str
    seen_at: datetime


def find_pod_question(sessions: Sessions, pod: Pod) -> Mapping[str, Any]:
    """Return a pod's question, as a body of ``POST /v1/fit``.

    Raises NotFoundError where its owner was never shown or had no question, and InvalidRequestError
    where it may have had several.
    """
    with transaction(sessions) as session:
        named_digests = queries.list_named_digests(
            session, pod.namespace, list_owner_names(pod.name), before=pod.seen_at
        )
    digests = _select_current(named_digests)
    if len(digests) > 1:
        names = ", ".join(sorted({name for name, _ in named_digests}))
        message = (
            f"pod {pod.namespace}/{pod.name} may be of {names}, about which {len(digests)} "
            "questions were asked, and nothing says which is its own: give each object a name of "
            "its own"
        )
        raise InvalidRequestError(message, errors=[{"field": "pod", "message": message}])
    digest = next(iter(digests), None)
    if digest is None:
        reason = "could not read a question of" if digests else "was not asked about"
        message = f"the admission webhook {reason} what made pod {pod.namespace}/{pod.name}"
        raise NotFoundError(message)
    return find_question(sessions, digest)


def _select_current(named_digests: Iterable[tuple[str, str | None]]) -> set[str | None]:
    """Return the last digest of each name, of decisions newest first.

    Objects that share a ``generateName`` may all be there at once.
    """
    seen: set[str] = set()
    digests: set[str | None] = set()
    for name, digest in named_digests:
        if name not in seen or name.endswith("-"):
            digests.add(digest)
        seen.add(name)
    return digests
