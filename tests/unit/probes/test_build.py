"""What is built for a probe."""

from service.estimator.rules.tables.probes.loops import (
    MIXED_OPTIMIZERS,
    PROBE_DTYPES,
    PROBE_OPTIMIZERS,
)
from worker.probes.models.build import TORCH_DTYPES
from worker.probes.models.optimizer_factories import FACTORIES
from worker.probes.models.optimizers import MIXED_KERNELS


def test_the_service_takes_the_dtypes_that_a_probe_has() -> None:
    """The service cannot import torch to ask what it may queue, so the two lists are held together
    here.
    """
    assert set(PROBE_DTYPES) == set(TORCH_DTYPES)


def test_the_service_takes_the_optimizers_that_a_probe_has() -> None:
    """The same holds for optimizers, and for those that read 16-bit gradients into fp32 masters."""
    assert set(PROBE_OPTIMIZERS) == set(FACTORIES)
    assert set(MIXED_OPTIMIZERS) == set(MIXED_KERNELS)
