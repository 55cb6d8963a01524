"""A machine with GPUs that nobody has to own."""

import pytest

from tests.fake_nvml import GIB, FakeGpu, FakeNvml


@pytest.fixture
def machine() -> FakeNvml:
    """Two whole GPUs of one kind and one that MIG divides."""
    instances = [
        FakeGpu(
            uuid="MIG-aaa1",
            name="NVIDIA H200 MIG 1g.18gb",
            total=17 * GIB,
            power_mw=None,
            utilization=None,
        ),
        FakeGpu(
            uuid="MIG-bbb2",
            name="NVIDIA H200 MIG 1g.18gb",
            total=17 * GIB,
            power_mw=None,
            utilization=None,
        ),
    ]
    return FakeNvml(
        FakeGpu(uuid="GPU-1111"),
        FakeGpu(uuid="GPU-1222"),
        FakeGpu(uuid="GPU-3333", instances=instances),
    )
