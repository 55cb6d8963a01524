"""What the estimator says of a case, before it is run."""

from collections.abc import Mapping

from service.catalog.gpus import entries_named
from service.catalog.models import load_architecture, resolve_model
from service.estimator.estimate import estimate
from service.estimator.model.architecture import Architecture
from service.estimator.speed.throughput import WorkCache, throughput_of
from service.estimator.values.device import Device
from service.estimator.values.errors import EstimatorError
from service.probing.stack import keep
from tests.gpu.sweep.case import Case, Predicted

_BOUNDLESS = Device(name="any", capacity_bytes=2**60, usable_bytes=2**60)
"""For devices that the catalogue does not know: bytes of tensors do not depend on it."""


def device_of(environment: Mapping[str, object]) -> Device:
    """Return the catalogue's device for the GPU that an environment names."""
    found = entries_named(str(environment.get("gpu")))
    return found[0].device() if len(found) == 1 else _BOUNDLESS


def architecture_of(case: Case) -> Architecture:
    """Return the model of a case, cut to its layers."""
    architecture = load_architecture(resolve_model(case.model))
    return architecture if case.layers is None else keep(architecture, case.layers)


def predict(case: Case, device: Device) -> Predicted | None:
    """Return the prediction, None for what the estimator has no term for."""
    model, workload = architecture_of(case), case.task.workload
    try:
        answer = estimate(model, workload, layout=case.layout, device=device)
    except EstimatorError:
        return None
    speed = throughput_of(model, workload, case.layout, device, answer, WorkCache())
    return Predicted(
        allocated_bytes=answer.allocated_bytes,
        reserved_bytes=answer.reserved_bytes,
        device_bytes=answer.device_bytes,
        steady_bytes=answer.steady_bytes,
        instants={instant.name: instant.allocated_bytes for instant in answer.instants},
        step_time_s=None if speed is None else speed.step_time_s,
        prefill_time_s=None if speed is None else speed.prefill_time_s,
    )
