"""Rules for adapters."""

from service.estimator.memory.adapter_bases import resolve_base_weights
from service.estimator.model.adapters.stacks import MERGED, build_stack_adapters
from service.estimator.model.architecture import Architecture
from service.estimator.model.weights.scheme import Packing
from service.estimator.rules.bases import check_base
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.workload import Lora, TrainWorkload

_MAMBAS = ("mamba", "mamba2", "falcon_mamba")
"""Families whose ``out_proj`` PEFT adapts no more (``_check_lora_target_modules_mamba``)."""

_SUBCLASSED_ROUTERS = ("llama4_text", "phimoe")
"""Families whose router is a linear layer of a class of its own."""


def check_adapters(model: Architecture, workload: TrainWorkload) -> None:
    """Raise for adapters without a term and for missing targets."""
    check_base(model, workload)
    lora = workload.lora
    if lora is None:
        return
    _check_variant(model, workload)
    targets = {layer.target for block, _ in model.blocks for layer in block.linears()}
    targets |= {layer.target for layer in model.outer_linears}
    targets |= MERGED[model.family].names if model.family in MERGED else frozenset()
    _check_incompatible(model.family, lora.targets, targets)
    _check_merged(model.family, lora)
    missing = [name for name in lora.targets or () if name not in targets]
    if missing:
        message = (
            f"target_modules names {missing[0]!r}; this model has {', '.join(sorted(targets))}"
        )
        raise InvalidInputError(message, field="workload.lora.target_modules")


def _check_incompatible(family: str, targets: tuple[str, ...] | None, available: set[str]) -> None:
    """Raise InvalidInputError for targets that PEFT cannot adapt."""
    field = "workload.lora.target_modules"
    if places := [name for name in targets or () if name.isdigit()]:
        message = (
            f"target_modules names {places[0]!r}, the place of many modules in their lists; name "
            "layers, or say all-linear"
        )
        raise InvalidInputError(message, field=field)
    if family in _MAMBAS and (targets is None or "out_proj" in targets):
        possible = ", ".join(sorted(available - {"out_proj"}))
        message = (
            f"PEFT adapts no out_proj of {family}, which all-linear names as well; use a list of "
            f"{possible}"
        )
        raise InvalidInputError(message, field=field)
    if family in _SUBCLASSED_ROUTERS and (targets is None or "router" in targets):
        possible = ", ".join(sorted(available - {"router"}))
        message = (
            f"{family}'s router returns more than its product, which no adapter can add to; use a "
            f"list of {possible}"
        )
        raise InvalidInputError(message, field=field)


def _check_merged(family: str, lora: Lora) -> None:
    """Raise InvalidInputError for adapters that merged parameters cannot have.

    They are half of a merged parameter, and a variant that PEFT's ``ParamWrapper`` refuses.
    """
    stacks, field = build_stack_adapters(family, lora), "workload.lora.target_modules"
    if stacks is None:
        return
    if lora.variant == "dora" and (stacks.router or stacks.gate_up or stacks.down):
        named = ", ".join(sorted(stacks.merged_names))
        message = (
            f"PEFT makes no DoRA on merged parameters of {family}; name target_modules without "
            f"{named}"
        )
        raise InvalidInputError(message, field=field)
    fused = MERGED[family].gate_up
    named_ones = [name for name in fused if name in (lora.targets or fused)]
    if 0 < len(named_ones) < len(fused):
        message = (
            f"{named_ones[0]} is one parameter with the other of {' and '.join(fused)}; name both "
            "or none"
        )
        raise InvalidInputError(message, field=field)


def _check_variant(model: Architecture, workload: TrainWorkload) -> None:
    """Raise for a variant without a term.

    A variant is also refused on weights whose wrapper PEFT refuses it for (``GPTQLoraLinear``).
    """
    lora = workload.lora
    if lora is None or lora.variant in {"lora", "rslora"}:
        return
    if lora.variant in {"ia3", "miss"}:
        _check_shards(model, lora)
        return
    if lora.variant != "dora":
        modelled = ["lora", "rslora", "dora"]
        raise NotModelledError(
            f"LoRA variant {lora.variant!r}", field="workload.lora.variant", modelled=modelled
        )
    scheme = resolve_base_weights(model, workload).scheme
    if scheme is not None and scheme.packing is not Packing.BLOCKS_4BIT:
        what = f"DoRA on weights packed as {scheme.packing.value}"
        raise NotModelledError(
            what,
            field="workload.lora.variant",
            modelled=["DoRA on nf4 and on weights that are not quantised"],
        )


def _check_shards(model: Architecture, lora: Lora) -> None:
    """Raise where MiSS would pad a layer's input to whole shards."""
    layers = (
        layer
        for block, _ in model.blocks
        for layer in block.linears()
        if layer.target in (lora.targets or ())
    )
    padded = [layer for layer in layers if lora.variant == "miss" and layer.in_features % lora.rank]
    if padded:
        what = f"MiSS of rank {lora.rank} on {padded[0].in_features} inputs, which it pads"
        raise NotModelledError(
            what, field="workload.peft.type", modelled=["inputs that the rank divides"]
        )
