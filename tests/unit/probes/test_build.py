"""What is built for a probe."""

from service.usecases.measurable import PROBE_DTYPES
from worker.probes.build import TORCH_DTYPES


def test_the_service_takes_the_dtypes_that_a_probe_has() -> None:
    """The service cannot import torch to ask what it may queue, so the two lists are held together here."""
    assert set(PROBE_DTYPES) == set(TORCH_DTYPES)
