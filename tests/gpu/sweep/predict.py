"""The estimator's prediction for a case, before it is run."""

from collections.abc import Mapping

from service.catalog.gpus import find_gpus
from service.catalog.models import load_architecture, resolve_model
from service.estimator.cache import PlanCache
from service.estimator.model.architecture import Architecture
from service.estimator.values.device import Device
from service.estimator.values.errors import EstimatorError
from service.planner.fit.evaluator import make_evaluator
from service.probing.stack import keep_layers
from tests.gpu.sweep.case import Case, Prediction

_BOUNDLESS = Device(name="any", capacity_bytes=2**60, usable_bytes=2**60)
"""Device for GPUs that the catalogue lacks: bytes of tensors do not depend on it."""


def get_device(environment: Mapping[str, object]) -> Device:
    """Return the catalogue's device for the GPU that an environment names."""
    entries = find_gpus(str(environment.get("gpu")))
    return entries[0].to_device() if len(entries) == 1 else _BOUNDLESS


def load_case_architecture(case: Case) -> Architecture:
    """Load the model of a case, truncated to its layers."""
    architecture = load_architecture(resolve_model(case.model))
    return architecture if case.layers is None else keep_layers(architecture, case.layers)


def predict(case: Case, device: Device) -> Prediction | None:
    """Predict a case as the service does, None for one that the estimator does not model."""
    workload = case.task.workload
    evaluator = make_evaluator(load_case_architecture(case), device, plans=PlanCache())
    try:
        answer = evaluator.answer(workload, case.layout)
    except EstimatorError:
        return None
    speed = evaluator.get_throughput(workload, case.layout, answer)
    return Prediction(
        allocated_bytes=answer.allocated_bytes,
        reserved_bytes=answer.reserved_bytes,
        device_bytes=answer.device_bytes,
        steady_bytes=answer.steady_bytes,
        instants={instant.name: instant.allocated_bytes for instant in answer.instants},
        step_time_s=None if speed is None else speed.step_time_s,
        prefill_time_s=None if speed is None else speed.prefill_time_s,
    )
