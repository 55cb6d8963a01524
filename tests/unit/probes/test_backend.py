"""Each device has its backend, loaded when it is asked for."""

import pytest

from service.jobs.contract import FailureKind, ProbeDevice
from service.probing.refusal import Refusal
from worker.probes.run import backend
from worker.probes.run.backend import load_backend


def test_the_cpu_has_a_backend() -> None:
    """A backend knows which device it is and what its numbers depend on."""
    found = load_backend(ProbeDevice.CPU)

    assert found.device is ProbeDevice.CPU
    assert {"cpu", "threads", "allocator"} <= found.environment().keys()


@pytest.mark.parametrize("module", ["worker.probes.nonesuch", "worker.probes.nonesuch.backend"])
def test_a_device_without_backend_is_refused_by_name(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refusal says which devices there are."""
    monkeypatch.setitem(backend._BACKENDS, ProbeDevice.CUDA, (module, "CudaBackend"))  # noqa: SLF001 - the table is the seam

    with pytest.raises(Refusal, match=r"device cuda yet; it measures on .*cpu") as refused:
        load_backend(ProbeDevice.CUDA)

    assert refused.value.kind is FailureKind.NOT_AVAILABLE_YET
