"""Predicates of rules about low-rank adapters, and what their refusals quote."""

from service.estimator.model.adapters.parameters import is_adapted
from service.estimator.model.adapters.stacks import MERGED, build_stack_adapters, list_last_parts
from service.estimator.model.saved_modules import is_saved_layer
from service.estimator.model.task_head import get_saved_names
from service.estimator.model.weights.scheme import Packing
from service.estimator.rules.grammar.facts import Case
from service.estimator.rules.predicates.models import get_base_packing, get_training
from service.estimator.values.workload import Lora


def get_lora(case: Case) -> Lora:
    """Return the adapters of a case that has some."""
    lora = get_training(case).lora
    assert lora is not None  # noqa: S101 - what its rules apply to
    return lora


def list_targets(case: Case) -> set[str]:
    """Return the names that adapters of a model may have as targets."""
    tree = case.model.tree
    targets = {layer.target for block, _ in tree.blocks for layer in block.linears()}
    targets |= {layer.target for layer in tree.outer_linears}
    return targets | (MERGED[tree.family].names if tree.family in MERGED else frozenset())


def list_other_targets(case: Case, name: str) -> str:
    """Return the targets of a model but one, as refusals name them."""
    return ", ".join(sorted(list_targets(case) - {name}))


def find_padded_inputs(case: Case) -> int | None:
    """Return the inputs of the first layer that MiSS would pad."""
    lora = get_lora(case)
    layers = (layer for block, _ in case.model.tree.blocks for layer in block.linears())
    named = lora.targets is not None
    wide = (layer.in_features for layer in layers if named and is_adapted(layer, lora))
    padded = (inputs for inputs in wide if lora.variant == "miss" and inputs % lora.rank)
    return next(padded, None)


def has_known_variant(case: Case) -> bool:
    """Return whether adapters are of a variant that has a term."""
    return get_lora(case).variant in {"lora", "rslora", "ia3", "miss", "dora"}


def suits_dora(case: Case) -> bool:
    """Return whether requested DoRA works on the base weights."""
    plain = get_base_packing(case) in {None, Packing.BLOCKS_4BIT}
    return plain or get_lora(case).variant != "dora"


def drops_transposed(case: Case) -> bool:
    """Return whether DoRA multiplies by transposed weights as they are."""
    lora, is_plain = get_lora(case), get_base_packing(case) is None
    stored = get_training(case).precision.param_dtype
    return lora.variant == "dora" and lora.dropout > 0 and is_plain and stored is lora.dtype


def adapts_beside_head(case: Case) -> bool:
    """Return whether a root unit trains adapters beside another format."""
    lora, tree = get_lora(case), case.model.tree
    saved = get_saved_names(tree.task)
    if not saved or get_training(case).precision.param_dtype is lora.dtype:
        return False
    in_units = {*tree.tower_layer_weights}
    return any(
        is_adapted(layer, lora)
        and not is_saved_layer(layer, saved)
        and in_units.isdisjoint(layer.weights())
        for layer in tree.outer_linears
    )


def find_place(case: Case) -> str | None:
    """Return the first target that is a place in a list."""
    return next((name for name in get_lora(case).targets or () if name.isdigit()), None)


def names(case: Case, target: str) -> bool:
    """Return whether adapters are on a target.

    It is named, alone or as the end of a path, or meant by ``all-linear``.
    """
    targets = list_last_parts(get_lora(case))
    return targets is None or target in targets


def merges_dora(case: Case) -> bool:
    """Return whether DoRA is asked for on parameters that transformers merged."""
    return get_lora(case).variant == "dora" and bool(list_wrapped(case))


def drops_stacks(case: Case) -> bool:
    """Return whether inputs of adapters on merged parameters are dropped."""
    return get_lora(case).dropout > 0 and bool(list_wrapped(case))


def list_wrapped(case: Case) -> str:
    """Return the merged parameters that are adapted, as refusals name them."""
    stacks = build_stack_adapters(case.model.family, get_lora(case))
    is_wrapped = stacks is not None and bool(stacks.router or stacks.gate_up or stacks.down)
    return list_merged(case) if is_wrapped else ""


def list_merged(case: Case) -> str:
    """Return the names that stand for merged parameters, as refusals name them."""
    stacks = build_stack_adapters(case.model.family, get_lora(case))
    return "" if stacks is None else ", ".join(sorted(stacks.merged_names))


def find_half(case: Case) -> str | None:
    """Return the target that is half of a merged parameter."""
    lora = get_lora(case)
    if build_stack_adapters(case.model.family, lora) is None:
        return None
    fused = MERGED[case.model.family].gate_up
    named = [name for name in fused if name in (list_last_parts(lora) or fused)]
    return named[0] if 0 < len(named) < len(fused) else None


def find_missing(case: Case) -> str | None:
    """Return the first target that names nothing of the model."""
    tree, targets = case.model.tree, list_targets(case)
    inner = (layer for block, _ in tree.blocks for layer in block.linears())
    paths = [f".{layer.name}" for layer in (*inner, *tree.outer_linears)]
    merged = MERGED[tree.family].names if tree.family in MERGED else frozenset[str]()
    for target in get_lora(case).targets or ():
        is_path = any(path.endswith(f".{target}") for path in paths)
        if not (is_path or target in targets or target.rpartition(".")[2] in merged):
            return target
    return None
