"""Pods and nodes as extenders of schedulers are shown them.

What made a pod was asked about by other hooks, if at all: here each pod is a submission.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from service.formats.gpu_requests.pod_products import PRODUCT_LABELS, clean_product
from service.formats.inventories.documents import Json, get_mebibytes, get_object
from service.formats.submissions.kubernetes import read_object
from service.formats.submissions.submission import Submission, SubmissionError

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


def asks_for_gpus(pod: Json) -> bool:
    """Return whether a pod readably asks for GPUs."""
    try:
        job = read_pod(pod, scheduler="")
    except SubmissionError:
        return False
    return job is not None and job.gpus is not None and job.gpus.total > 0


def label_node(name: str, labels: Mapping[str, str]) -> LabelledNode:
    """Return a node with the GPU that its labels name."""
    product = next((text for label in PRODUCT_LABELS if (text := labels.get(label))), None)
    return LabelledNode(
        name=name,
        product=None if product is None else clean_product(product),
        memory_bytes=get_mebibytes(labels, _MEMORY_LABEL),
    )
