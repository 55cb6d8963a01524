"""Machines that clouds rent, named where a GPU is asked for."""

import pytest

from service.base.errors import UnknownGpuError
from service.catalog.gpus import list_gpus, resolve_gpu
from service.catalog.instance_names import INSTANCES


@pytest.mark.parametrize(
    ("name", "gpu"),
    [
        ("g5.xlarge", "A10G"),
        ("p4d.24xlarge", "A100-SXM4-40GB"),
        ("p4de.24xlarge", "A100-SXM4-80GB"),
        ("p5.4xlarge", "H100-SXM5-80GB"),
        ("p5en.48xlarge", "H200-SXM5-141GB"),
        ("a2-highgpu-1g", "A100-SXM4-40GB"),
        ("a3-ultragpu-8g", "H200-SXM5-141GB"),
        ("Standard_ND96isr_H100_v5", "H100-SXM5-80GB"),
        ("Standard_NC80adis_H100_v5", "H100-NVL-94GB"),
    ],
)
def test_a_machines_name_is_refused_with_its_gpu(name: str, gpu: str) -> None:
    """Who knows the machine alone reads what to say."""
    with pytest.raises(UnknownGpuError, match=f"say theirs, {gpu}"):
        resolve_gpu(name)


def test_every_machine_has_a_gpu_of_the_catalogue() -> None:
    """What is said can be said."""
    assert {gpu for _, gpu in INSTANCES} <= {entry.name for entry in list_gpus()}


@pytest.mark.parametrize("name", ["16GB", "24 GB", "80g", "24 GiB card"])
def test_a_size_is_refused_with_the_flag_for_it(name: str) -> None:
    """A GPU may be asked about by its memory alone."""
    size = "".join(filter(str.isdigit, name))

    with pytest.raises(UnknownGpuError, match=f'memory_bytes "{size}Gi"'):
        resolve_gpu(name)
