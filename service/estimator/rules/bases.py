"""Rules for training on quantised weights."""

from service.estimator.memory.adapter_bases import UPCAST, resolve_base_weights
from service.estimator.model.adapters.frozen import TRAINABLE
from service.estimator.model.architecture import Architecture
from service.estimator.model.quantization.weights import inspect_placements
from service.estimator.model.weights.scheme import Packing, Scheme, Scope
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.workload import Method, TrainWorkload


def check_base(model: Architecture, workload: TrainWorkload) -> None:
    """Raise for quantised weights without a term.

    Options that would change nothing or contradict the config are refused too.
    """
    scheme = resolve_base_weights(model, workload).scheme
    if not workload.double_quantization and workload.method is not Method.QLORA:
        message = 'double_quantization is about the nf4 weights of method "qlora"'
        raise InvalidInputError(message, field="workload.double_quantization")
    if scheme is None:
        _check_plain(workload)
        return
    if workload.method is Method.FULL:
        message = (
            f"weights packed as {scheme.packing.value} get no gradient: train adapters on them, or "
            "the model in 16 bits, whose config has no quantization_config"
        )
        raise InvalidInputError(message, field="workload.method")
    if workload.method is Method.QLORA and scheme.packing is not Packing.BLOCKS_4BIT:
        message = (
            'method "qlora" means nf4, but the config packs its weights as '
            f'{scheme.packing.value}; say "lora"'
        )
        raise InvalidInputError(message, field="workload.method")
    if scheme.packing not in TRAINABLE:
        what = f"adapters on weights packed as {scheme.packing.value}"
        raise NotModelledError(what, field="model", modelled=list(TRAINABLE.values()))
    if workload.fp32_norms_and_head and scheme.packing not in UPCAST:
        message = (
            "fp32_norms_and_head has no effect: prepare_model_for_kbit_training casts nothing "
            f"beside {scheme.packing.value}"
        )
        raise InvalidInputError(message, field="workload.fp32_norms_and_head")
    _check_places(model, scheme)


def _check_plain(workload: TrainWorkload) -> None:
    if workload.fp32_norms_and_head:
        message = (
            "fp32_norms_and_head is for quantised weights; beside none, "
            "prepare_model_for_kbit_training casts all: fp32 says so"
        )
        raise InvalidInputError(message, field="workload.fp32_norms_and_head")


def _check_places(model: Architecture, scheme: Scheme) -> None:
    """Raise for layers that are quantised in different ways.

    Stacked experts, whose products have no term, are refused too.
    """
    mixed, stacked = inspect_placements(model, scheme)
    if mixed:
        what = "training with modules that are quantised in some layers and not in others"
        raise NotModelledError(what, field="model", modelled=["the same modules in every layer"])
    if scheme.scope is Scope.ALL and stacked:
        raise NotModelledError(
            "adapters beside quantised experts", field="model", modelled=["dense models", "qlora"]
        )
