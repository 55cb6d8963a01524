"""Pods and nodes as extenders of schedulers are shown them.

What made a pod was asked about by other hooks, if at all: here each pod is a submission.
"""

from dataclasses import dataclass, replace

from service.formats.inventories.documents import Json, get_mebibytes, get_object, get_text
from service.formats.inventories.feature_discovery import PRODUCT_LABELS
from service.formats.submissions.kubernetes import clean_product, read_object
from service.formats.submissions.submission import Submission

_MEMORY_LABEL, _OWNERS = "nvidia.com/gpu.memory", "ownerReferences"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledNode:
    """A node by its name, and its GPU by the node's labels.

    ``product`` and ``memory_bytes`` are None where no label tells them.
    """

    name: str
    product: str | None = None
    memory_bytes: int | None = None


def read_pod(pod: Json, scheduler: str) -> Submission | None:
    """Return a pod as a submission, whoever made it.

    Raises SubmissionError for one without containers.
    """
    metadata = {
        name: value for name, value in get_object(pod, "metadata").items() if name != _OWNERS
    }
    job = read_object({**pod, "apiVersion": "v1", "kind": "Pod", "metadata": metadata})
    return None if job is None else replace(job.submission, scheduler=scheduler, can_change=False)


def read_node(node: Json) -> LabelledNode:
    """Return a node with the GPU that its labels name."""
    metadata = get_object(node, "metadata")
    labels = get_object(metadata, "labels")
    product = next((text for label in PRODUCT_LABELS if (text := get_text(labels, label))), None)
    return LabelledNode(
        name=get_text(metadata, "name"),
        product=None if product is None else clean_product(product),
        memory_bytes=get_mebibytes(labels, _MEMORY_LABEL),
    )
