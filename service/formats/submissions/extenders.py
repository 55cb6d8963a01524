"""Pods and nodes as extenders of schedulers are shown them.

What made a pod was asked about by other hooks, if at all: here each pod is a submission.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from service.formats.submissions.kubernetes import PRODUCT_LABELS, read_object
from service.formats.submissions.submission import Submission

Json = Mapping[str, object]
_MEMORY_LABEL, _OWNERS = "nvidia.com/gpu.memory", "ownerReferences"
_SHARED = "-SHARED"
"""What feature discovery puts behind the product of a GPU that several pods share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledNode:
    """A node by its name, and its GPU by the node's labels.

    ``product`` and ``memory_mib`` are None where no label tells them.
    """

    name: str
    product: str | None = None
    memory_mib: int | None = None


def read_pod(pod: Json, scheduler: str) -> Submission | None:
    """Return a pod as a submission, whoever made it.

    Raises SubmissionError for one without containers.
    """
    metadata = {
        name: value for name, value in _get_object(pod, "metadata").items() if name != _OWNERS
    }
    job = read_object({**pod, "apiVersion": "v1", "kind": "Pod", "metadata": metadata})
    return None if job is None else replace(job.submission, scheduler=scheduler, can_change=False)


def read_node(node: Json) -> LabelledNode:
    """Return a node with the GPU that its labels name."""
    metadata = _get_object(node, "metadata")
    labels, name = _get_object(metadata, "labels"), metadata.get("name")
    products = [text for label in PRODUCT_LABELS if isinstance(text := labels.get(label), str)]
    memory = labels.get(_MEMORY_LABEL)
    is_count = isinstance(memory, str) and memory.isascii() and memory.isdigit()
    return LabelledNode(
        name=name if isinstance(name, str) else "",
        product=products[0].removesuffix(_SHARED) if products else None,
        memory_mib=int(str(memory)) if is_count else None,
    )


def _get_object(document: Json, name: str) -> Json:
    value = document.get(name)
    return value if isinstance(value, Mapping) else {}
