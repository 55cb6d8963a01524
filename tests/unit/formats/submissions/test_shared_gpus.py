"""Objects of Kubernetes whose pods share GPUs."""

import pytest

from service.formats.submissions.submission import GpuRequest
from tests.unit.formats.submissions.test_kubernetes import CONTAINER, an_object, read


@pytest.mark.parametrize(
    ("resource", "product", "remark"),
    [
        ("nvidia.com/gpu", "NVIDIA-H100-80GB-HBM3", None),
        ("nvidia.com/gpu", "NVIDIA-H100-80GB-HBM3-SHARED", "NVIDIA-H100-80GB-HBM3-SHARED is a GPU"),
        ("nvidia.com/gpu.shared", "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.shared is a GPU that"),
    ],
)
def test_shared_gpus_are_counted_and_warned_of(
    resource: str, product: str, remark: str | None
) -> None:
    """By the resource's own name or the product's suffix; more of them would be no memory."""
    spec = {
        "nodeSelector": {"nvidia.com/gpu.product": product},
        "containers": [{**CONTAINER, "resources": {"limits": {resource: 1}}}],
    }

    job = read(an_object("Pod", spec))

    assert job.submission.gpus == GpuRequest(per_node=1, names=("NVIDIA-H100-80GB-HBM3",))
    assert job.submission.can_change is (remark is None)
    assert [text[: len(remark or "")] for text in job.remarks] == ([remark] if remark else [])
