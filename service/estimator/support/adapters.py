"""Which adapters have a term."""

from service.estimator.architecture import Architecture
from service.estimator.errors import InvalidInputError, NotModelledError
from service.estimator.support.bases import check_base
from service.estimator.workload import TrainWorkload


def check_adapters(model: Architecture, workload: TrainWorkload) -> None:
    """Raise for adapters that have no term, and for targets that the model does not have."""
    check_base(model, workload)
    lora = workload.lora
    if lora is None:
        return
    if lora.variant not in {"lora", "rslora"}:
        raise NotModelledError(f"LoRA variant {lora.variant!r}", field="workload.lora.variant", modelled=["lora", "rslora"])
    if model.recurrent:
        raise NotModelledError("adapters on state-space mixers", field="workload.lora", modelled=["method: full"])
    known = {layer.target for block, _ in model.blocks for layer in block.linears()}
    known |= {layer.target for layer in model.outer_linears}
    if lora.targets is None and model.spec.num_experts:
        what = "target_modules 'all-linear' of a model with stacked experts, which PEFT adapts as well"
        raise NotModelledError(what, field="workload.lora.target_modules", modelled=[f"a list of {', '.join(sorted(known))}"])
    missing = [name for name in lora.targets or () if name not in known]
    if missing:
        message = f"target_modules names {missing[0]!r}; this model has {', '.join(sorted(known))}"
        raise InvalidInputError(message, field="workload.lora.target_modules")
