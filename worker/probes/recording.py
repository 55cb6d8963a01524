"""Architectures of probes' models, recorded where no module knows their type."""

from collections.abc import Callable, Mapping

from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.model.recorded.architecture import build_recorded
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import TrainWorkload, Workload
from service.jobs.contract import FailureKind
from service.probing.refusal import Refusal
from worker.probes.architecture.listening.variants import VARIANTS
from worker.probes.architecture.record import record_model
from worker.probes.models.build import is_recorded_type


def read_or_record(workload: Workload) -> Callable[[Mapping[str, object]], Architecture]:
    """Return the reader of a config.json, for one workload.

    A type without a module is recorded in the one variant that the workload runs.
    """

    def read(config: Mapping[str, object]) -> Architecture:
        if not is_recorded_type(config):
            return architecture_from_config(config)
        name = _name_variant(workload)
        return build_recorded(record_model(config, {name: VARIANTS[name]}))

    return read


def _name_variant(workload: Workload) -> str:
    """Return the name of the recorded pass of a training step."""
    if not isinstance(workload, TrainWorkload):
        message = "a probe trains models whose type has no module here, and serves none of them"
        raise Refusal(FailureKind.UNSUPPORTED, message)
    precision = workload.precision
    formats = (
        "autocast"
        if precision.autocast
        else "fp32"
        if precision.param_dtype is DType.FP32
        else "half"
    )
    return formats if workload.lora is None else f"{formats}/frozen"
