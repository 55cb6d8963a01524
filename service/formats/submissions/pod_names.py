"""Names of pods, and of the objects that made them.

A controller makes a pod's name of its own by rules: Kubernetes 1.37 (Job, Deployment,
StatefulSet), JobSet 0.12 (also below a TrainJob), LWS 0.10, KubeRay 1.7.
"""

import re

_RANDOM = "[bcdfghjklmnpqrstvwxz2456789]"
"""Letters of a generated suffix (k8s.io/apimachinery, pkg/util/rand)."""
_SUFFIX = re.compile(
    rf"-{_RANDOM}{{5}}"  # a Job, or a ReplicaSet
    rf"|-[0-9]+-{_RANDOM}{{5}}"  # an indexed Job
    rf"|-{_RANDOM}{{1,10}}-{_RANDOM}{{5}}"  # a Deployment
    r"|-[0-9]+(?:-[0-9]+)?"  # a StatefulSet, a LeaderWorkerSet
    rf"|-[a-z0-9-]+-[0-9]+-[0-9]+-{_RANDOM}{{5}}"  # a JobSet
    rf"|-(?:raycluster-)?{_RANDOM}{{5}}-[a-z0-9-]+-worker-{_RANDOM}{{5}}"  # a RayJob
)
_GENERATED = re.compile(f"{_RANDOM}{{5}}")


def list_owner_names(pod: str) -> tuple[str, ...]:
    """Return the names that a pod's owner may have.

    One that ends with ``-`` is a ``generateName``, which several objects may share.
    """
    ends = [index for index, letter in enumerate(pod) if letter == "-"]
    names = {pod, *(pod[:end] for end in ends), *(pod[: end + 1] for end in ends)}
    return tuple(sorted(name for name in names if is_pod_of(pod, name)))


def is_pod_of(pod: str, name: str) -> bool:
    """Return whether an object of this name makes pods of that one."""
    if not name or not pod.startswith(name):
        return False
    rest = pod[len(name) :]
    if name.endswith("-"):
        match = _GENERATED.match(rest)
        if match is None:
            return False
        rest = rest[match.end() :]
    return not rest or _SUFFIX.fullmatch(rest) is not None
