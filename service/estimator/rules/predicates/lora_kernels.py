"""Predicates of rules about axolotl's kernels for adapters."""

from service.estimator.memory.adapter_bases import resolve_base_weights
from service.estimator.model.modules.joined import FIRST_OF_GATED
from service.estimator.model.weights.scheme import Packing
from service.estimator.rules.grammar.facts import Case
from service.estimator.rules.predicates.adapters import get_lora
from service.estimator.rules.predicates.models import get_base_packing, get_training
from service.estimator.values.adapters.lora_kernels import (
    ATTENTION_KERNELS,
    KERNEL_ACTIVATIONS,
    LoraKernel,
)


def has_kernels(case: Case) -> bool:
    """Return whether adapters are run by axolotl's kernels."""
    lora = get_training(case).lora
    return lora is not None and bool(lora.kernels)


def has_attention_kernels(case: Case) -> bool:
    """Return whether some of them are written into attention's code."""
    lora = get_training(case).lora
    return lora is not None and not ATTENTION_KERNELS.isdisjoint(lora.kernels)


def suits_kernels(case: Case) -> bool:
    """Return whether kernels can read the base weights."""
    return get_base_packing(case) in {None, Packing.BLOCKS_4BIT}


def suits_foak(case: Case) -> bool:
    """Return whether foak's functions can read the base weights."""
    return get_base_packing(case) in {None, Packing.BLOCKS_4BIT, Packing.GPTQ}


def is_int8(case: Case) -> bool:
    """Return whether base weights are LLM.int8()'s."""
    return get_base_packing(case) is Packing.INT8_ROWS


def has_plain_variant(case: Case) -> bool:
    """Return whether adapters have no magnitudes."""
    return get_lora(case).variant in {"lora", "rslora"}


def suits_gated(case: Case) -> bool:
    """Return whether the kernel of gated layers has their activation."""
    tree = case.model.tree
    is_gated = any(
        layer.name == FIRST_OF_GATED for block, _ in tree.blocks for layer in block.linears()
    )
    named = tree.spec.activation
    is_known = any(known in named for known in KERNEL_ACTIVATIONS)
    return is_known or not (is_gated and LoraKernel.MLP in get_lora(case).kernels)


def joins_gated(case: Case) -> bool:
    """Return whether all of a gated layer's quantised weights are adapted."""
    targets = get_lora(case).targets
    return get_base_packing(case) is not None and (
        targets is None or {"gate_proj", "up_proj", "down_proj"} <= set(targets)
    )


def computes_in_format(case: Case) -> bool:
    """Return whether norms return what products are computed in.

    Under autocast weights of another format make inputs that ``addmm_`` does not take.
    """
    workload = get_training(case)
    precision, base = (
        workload.precision,
        resolve_base_weights(case.model.tree, workload, case.layout),
    )
    return not (precision.autocast and base.dtype is not precision.compute_dtype)
