"""Predicates of rules about serving engines of recorded models."""

from importlib import import_module
from typing import TYPE_CHECKING

from service.estimator.memory.kv_cache import is_latent, keeps_states
from service.estimator.model.recorded.engine_models import (
    list_engines,
    load_engine_models,
    runs_transformers_code,
)
from service.estimator.model.recorded.narrowing import is_recorded
from service.estimator.rules.grammar.facts import Case
from service.estimator.rules.predicates.models import get_serving, get_training
from service.estimator.values.batches import SequencePacking

if TYPE_CHECKING:
    from service.estimator.model.recorded.recorded_model import RecordedLayer

_SPLIT = frozenset({"attention", "mlp"})


def has_recorded_layers(case: Case) -> bool:
    """Return whether a recording has layers of its own.

    Layers that are no stack run as one program.
    """
    tree = case.model.tree
    return is_recorded(tree) and bool(tree.recorded.order)


def has_rows_enough(case: Case) -> bool:
    """Return whether a step has as many rows as a recording knows.

    Sequences that are packed are one row.
    """
    workload = get_training(case)
    rows = workload.micro_batch_size if workload.packing is SequencePacking.NONE else 1
    return case.model.fewest_sequences <= rows


def wraps_every_layer(case: Case) -> bool:
    """Return whether all layers that read tokens are units of a recording.

    An encoder's layers beside the decoder's are, where its operations tell them apart.
    """
    tree = case.model.tree
    return not is_recorded(tree) or tree.divides_prologue


def has_known_layers(case: Case) -> bool:
    """Return whether engines know what every layer keeps and runs."""
    return _find_unknown(case) is None


def describe_unknown(case: Case) -> str:
    """Return what is not known of a layer."""
    return str(_find_unknown(case))


def _find_unknown(case: Case) -> str | None:
    tree = case.model.tree
    if not is_recorded(tree):
        return "no layers"
    layers = [block.layer for block in tree.list_recorded_blocks()]
    unknown = next((text for layer in layers if (text := _describe_layer(layer))), None)
    if unknown is not None:
        return unknown
    if not any(layer.cache and (layer.cache.caches or layer.cache.states) for layer in layers):
        return "no cache, as models have that write no text"
    if tree.spec.num_experts and not tree.spec.num_experts_per_token:
        return "experts of unknown number per token: record its config again"
    return None


def _describe_layer(layer: "RecordedLayer") -> str | None:
    """Return what has no term of a layer, None where all has."""
    cache = layer.cache
    if cache is None:
        return "layers whose cache was not recorded: record its config again"
    if cache.other:
        return f"layers that keep a {cache.other}, whose parts have no term"
    if any(part.index_size for part in cache.caches):
        return "layers that keep an index of their keys (sparse attention), which has no term"
    linear = {f"{part.name}.weight" for part in layer.linears}
    odd = next(
        (
            weight.name
            for weight in layer.weights
            if weight.kind in _SPLIT
            and weight.name not in linear
            and len(weight.shape) > 1
            and "bias" not in weight.name
        ),
        None,
    )
    return None if odd is None else f"a product with {odd}, which is no linear layer"


def has_engine_model(case: Case) -> bool:
    """Return whether the engine's release serves a recorded model's class."""
    tree, workload = case.model.tree, get_serving(case)
    models = load_engine_models().get(workload.engine)
    if models is None or not is_recorded(tree):
        return True
    return models.has_model(tree.recorded.model_class, workload.engine_version)


def describe_missing(case: Case) -> str:
    """Return which release has no model of a class."""
    tree, workload = case.model.tree, get_serving(case)
    assert is_recorded(tree)  # noqa: S101 - its rule asks of recordings
    name = tree.recorded.model_class
    models = load_engine_models()[workload.engine]
    last = models.removed.get(name)
    if last is not None:
        return f"{workload.engine} with {name}, which it served until {last}"
    return f"{workload.engine} {models.release} with {name}, of which it has no model"


def list_serving_engines(case: Case) -> list[str]:
    """Return the engines that serve a recorded model's class."""
    tree = case.model.tree
    assert is_recorded(tree)  # noqa: S101 - its rule asks of recordings
    return list_engines(tree.recorded.model_class)


def runs_transformers(case: Case) -> bool:
    """Return whether the engine runs transformers' code of a recorded model."""
    return runs_transformers_code(case.model.tree, get_serving(case).engine)


def suits_transformers_code(case: Case) -> bool:
    """Return whether what a backend runs by transformers' code has a term.

    It keeps keys and values of plain heads, and ranks share layers by a plan.
    """
    return _find_unsuited(case) is None


def describe_unsuited(case: Case) -> str:
    """Return what has no term by transformers' code."""
    return str(_find_unsuited(case))


def _find_unsuited(case: Case) -> str | None:
    tree = case.model.tree
    if not runs_transformers(case) or not is_recorded(tree):
        return None
    if keeps_states(tree):
        return "layers keep a state"
    if is_latent(tree):
        return "layers cache latent vectors"
    has_plan = any(block.layer.plan for block in tree.list_recorded_blocks())
    if case.layout.tensor_parallel > 1 and not has_plan:
        return "config has no tensor-parallel plan (base_model_tp_plan)"
    return None


def divides_layers(case: Case) -> bool:
    """Return whether tensor ranks can share every layer of a recorded model."""
    return _find_undivided(case) is None


def explain_undivided(case: Case) -> str:
    """Return what tensor ranks cannot share."""
    return str(_find_undivided(case))


def _find_undivided(case: Case) -> str | None:
    tree, ranks = case.model.tree, case.layout.tensor_parallel
    if ranks == 1 or not is_recorded(tree):
        return None
    # What runs recordings is loaded where a model is one.
    layers = import_module("service.estimator.model.recorded.rank_layers")
    split = layers.LayerSplit(
        hidden_size=tree.spec.hidden_size,
        num_heads=tree.spec.num_attention_heads,
        ranks=ranks,
        expert_ranks=case.layout.expert_tensor_parallel or ranks,
        by_plan=runs_transformers(case),
    )
    undivided: str | None = layers.find_undivided(
        [block.layer for block in tree.list_recorded_blocks()], split
    )
    return undivided
