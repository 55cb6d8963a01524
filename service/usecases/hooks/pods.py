"""Questions of pods, by what the admission webhook decided about their owners.

A node knows a pod's name and nothing of who made it; the decision was made before the pod was, and
a name is one object's at a time.
"""

from collections.abc import Mapping
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
    # The longest name is the nearest: pod train-0-x7x2k is train-0's, where there is one.
    name = max((name for name, _ in named_digests), key=len, default=None)
    digests = [digest for owner, digest in named_digests if owner == name]
    # Objects that share a generateName are told apart by nothing that a node sees.
    if name is not None and name.endswith("-") and len(set(digests)) > 1:
        message = (
            f"{len(set(digests))} questions were asked about objects named {name}… before pod "
            f"{pod.namespace}/{pod.name} ran, and nothing says which is its own: give each a name"
        )
        raise InvalidRequestError(message, errors=[{"field": "pod", "message": message}])
    digest = digests[0] if digests else None
    if digest is None:
        reason = "was not asked about" if name is None else "could not read a question of"
        message = f"the admission webhook {reason} what made pod {pod.namespace}/{pod.name}"
        raise NotFoundError(message)
    return find_question(sessions, digest)
