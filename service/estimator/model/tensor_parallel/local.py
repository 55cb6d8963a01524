"""A model as one tensor-parallel rank holds it.

It is the same tree with the rank's shard of heads, inner features and experts. The shards are those
of Megatron-LM (arXiv:1909.08053, section 3): the projections into heads and inner features are
split by columns, those out of them by rows; norms, routers and the small projections of latent
attention are replicated.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, cast

from service.estimator.model.architecture import Architecture
from service.estimator.model.block_module import BlockModule
from service.estimator.model.modules.attention.projections import Attention
from service.estimator.model.modules.attention.self_attention import SelfAttention
from service.estimator.model.modules.mlp.experts import Experts, SharedExpert
from service.estimator.model.modules.mlp.feedforward import FusedGatedFeedForward
from service.estimator.model.tensor_parallel.split_plan import (
    ENGINE,
    FIELD,
    SplitPlan,
    list_divisors,
)
from service.estimator.model.weights.tensors import Linear, Norm, Split, Weight
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.units import ceil_div

_COLUMNS = frozenset({"projections", "fused", "gate", "up", "gate_up", "expand", "query"})
_ROWS = frozenset({"output", "down", "dense"})
_HEADS = frozenset({"num_heads", "num_kv_heads"})
_INNER = "intermediate_size"


def local_architecture(
    model: Architecture, tensor_parallel: int, plan: SplitPlan = ENGINE
) -> Architecture:
    """Return the model as one of ``tensor_parallel`` ranks holds it.

    Raises InvalidInputError for a degree that does not divide heads or inner features, naming those
    that do.
    """
    if tensor_parallel == 1 and plan.expert_ranks in {None, 1}:
        return model
    if tensor_parallel > 1:
        check_divisible(model, tensor_parallel, plan)
    sharder = _Sharder(tensor_parallel, plan, model.spec.num_key_value_heads)
    spec = replace(
        model.spec,
        num_attention_heads=ceil_div(model.spec.num_attention_heads, tensor_parallel),
        num_key_value_heads=sharder.count_kv_heads(model.spec.num_key_value_heads),
    )
    embedding, head = model.embedding, model.head
    if plan.vocabulary:
        embedding, head = split_vocabulary(model, tensor_parallel, plan)
    elif plan.head and not model.tied:
        rows = ceil_div(model.vocab_size, tensor_parallel)
        head = replace(head, out_features=rows, split=Split.GATHERED_COLUMNS, ranks=tensor_parallel)
    blocks = tuple(
        (cast("BlockModule", sharder.shard(block)), count) for block, count in model.blocks
    )
    return replace(model, spec=spec, embedding=embedding, head=head, blocks=blocks)


def split_vocabulary(
    model: Architecture, tensor_parallel: int, plan: SplitPlan
) -> tuple[Weight, Linear]:
    """Return a rank's padded rows of table and head."""
    rows = (
        ceil_div(model.vocab_size, tensor_parallel * plan.vocabulary_multiple)
        * plan.vocabulary_multiple
    )
    table = model.embedding
    return (
        Weight(table.name, table.kind, (rows, *table.shape[1:])),
        replace(model.head, out_features=rows, split=Split.COLUMNS, ranks=tensor_parallel)
        if model.task is None
        else model.head,
    )


def check_divisible(model: Architecture, tensor_parallel: int, plan: SplitPlan) -> None:
    """Raise InvalidInputError for a degree that cannot split the model.

    It has to divide the model's heads and inner features.
    """
    if model.recurrent and not plan.splits_states:
        feature = f"tensor_parallel of {model.family}, whose mixers keep a state"
        raise NotModelledError(feature, field=FIELD, modelled=["tensor_parallel 1"])
    spec = model.spec
    if has_heads(model):
        _check_divides("attention heads", spec.num_attention_heads, tensor_parallel)
    _check_divides(
        "inner features of an MLP (intermediate_size)", spec.intermediate_size, tensor_parallel
    )
    kv_heads = spec.num_key_value_heads
    if (
        not has_heads(model)
        or kv_heads % tensor_parallel == 0
        or (plan.replicates_kv_heads and tensor_parallel % kv_heads == 0)
    ):
        return
    rule = "divide them or be a multiple of them" if plan.replicates_kv_heads else "divide them"
    message = (
        f"tensor_parallel {tensor_parallel} and {kv_heads} key and value heads: it must {rule}; "
        f"{list_divisors(kv_heads)}"
    )
    raise InvalidInputError(message, field=FIELD)


def has_heads(model: Architecture) -> bool:
    """Return whether any layer has attention heads to split."""
    return not model.recurrent or any(block.cache_elements_per_token for block, _ in model.blocks)


def _check_divides(parts: str, count: int, tensor_parallel: int) -> None:
    if count % tensor_parallel:
        message = (
            f"tensor_parallel {tensor_parallel} does not divide {count} {parts}; "
            f"{list_divisors(count)}"
        )
        raise InvalidInputError(message, field=FIELD)


class _Sharder:
    """Rebuilds a tree of modules with one rank's shard of every part."""

    def __init__(self, ranks: int, plan: SplitPlan, num_kv_heads: int) -> None:
        self.ranks, self.plan, self.num_kv_heads = ranks, plan, num_kv_heads
        self.expert_ranks = plan.expert_ranks or ranks

    def count_kv_heads(self, count: int) -> int:
        """Return a rank's key and value heads: one at least."""
        return max(1, count // self.ranks)

    def _divide(self, count: int, parts: str) -> int:
        _check_divides(parts, count, self.ranks)
        return count // self.ranks

    def shard(self, module: object) -> object:
        """Return a module with one rank's shard of its parts."""
        if (
            isinstance(module, (Linear, Norm, Weight))
            or not is_dataclass(module)
            or isinstance(module, type)
        ):
            return module
        share = getattr(module, "shard", None)
        if share is not None:
            return share(self.ranks) if self.ranks > 1 else module
        if self.plan.gathers and _has_full_outputs(module):
            return replace(cast("Any", module), **self._shard_gathered(module))
        kv_width = _get_kv_width(module)
        changes: dict[str, object] = (
            {"ranks": self.expert_ranks} if isinstance(module, Experts) else {}
        )
        for field in fields(module):
            old = getattr(module, field.name)
            new = self._shard_part(module, field.name, old, kv_width)
            if new is not old:
                changes[field.name] = new
        return replace(cast("Any", module), **changes) if changes else module

    def _shard_part(self, module: object, name: str, part: object, kv_width: int) -> object:
        if name in _HEADS and isinstance(part, int):
            return self.count_kv_heads(part) if name == "num_kv_heads" else part // self.ranks
        if name == _INNER and isinstance(part, int):
            _check_divides("inner features of an expert", part, self.expert_ranks)
            return part // self.expert_ranks
        if isinstance(part, Linear):
            return (
                part if _is_replicated(module, name) else self._shard_linear(name, part, kv_width)
            )
        if isinstance(part, tuple) and part and all(isinstance(item, Linear) for item in part):
            return tuple(
                self._shard_linear(name, item, kv_width)
                if name != "query" or index == len(part) - 1
                else item
                for index, item in enumerate(part)
            )
        if isinstance(part, Norm):
            return self._shard_norm(module, name, part)
        return self._shard_norms(name, part) if isinstance(part, tuple) else self.shard(part)

    def _shard_norm(self, module: object, name: str, norm: Norm) -> Norm:
        """Return a norm of a rank's heads.

        It shrinks with them where each head is normalised by itself, with weights of its own.
        """
        if not (isinstance(module, SelfAttention) and module.norm_each_head):
            return norm
        if name == "query_norm" and norm.size == module.num_heads * module.head_dim:
            heads = self._divide(module.num_heads, "heads")
        elif name == "key_norm" and norm.size == module.num_kv_heads * module.head_dim:
            heads = self.count_kv_heads(module.num_kv_heads)
        else:
            return norm
        return replace(norm, size=heads * module.head_dim)

    def _shard_norms(self, name: str, part: tuple[object, ...]) -> object:
        """Return the norms of a rank's heads, of which each has one."""
        if name in {"query_norms", "key_norms"}:
            return part[: max(1, len(part) // self.ranks)] if part else part
        return part

    def _shard_linear(self, name: str, layer: Linear, kv_width: int) -> Linear:
        if name in _ROWS and self.ranks > 1:
            inner = self._divide(layer.in_features, f"inputs of {layer.target}")
            return replace(layer, in_features=inner, split=Split.ROWS, ranks=self.ranks)
        if name not in _COLUMNS or self.ranks == 1:
            return layer
        return replace(
            layer,
            out_features=self._count_columns(layer, kv_width),
            split=Split.COLUMNS,
            ranks=self.ranks,
        )

    def _count_columns(self, layer: Linear, kv_width: int) -> int:
        """Return a rank's outputs.

        With more ranks than key and value heads, a rank holds a full head of each.
        """
        replicates_heads = self.num_kv_heads < self.ranks
        if not (replicates_heads and kv_width):
            return self._divide(layer.out_features, f"outputs of {layer.target}")
        head = kv_width // self.num_kv_heads
        if layer.target in {"k_proj", "v_proj"}:
            return head
        if layer.out_features > 2 * kv_width and _is_fused(layer):
            return (layer.out_features - 2 * kv_width) // self.ranks + 2 * head
        return self._divide(layer.out_features, f"outputs of {layer.target}")

    def _shard_gathered(self, module: object) -> Mapping[str, object]:
        """Return the layers of a module that computes on full outputs."""
        changes: dict[str, object] = {}
        for field in fields(cast("Any", module)):
            part = getattr(module, field.name)
            if isinstance(part, Linear):
                changes[field.name] = self._shard_gathered_linear(field.name, part)
            elif isinstance(part, tuple) and part and isinstance(part[0], Linear):
                changes[field.name] = tuple(
                    self._shard_gathered_linear(field.name, layer) for layer in part
                )
        return changes

    def _shard_gathered_linear(self, name: str, layer: Linear) -> Linear:
        if name in _ROWS:
            inner = self._divide(layer.in_features, f"inputs of {layer.target}")
            return replace(layer, in_features=inner, split=Split.SCATTERED_ROWS, ranks=self.ranks)
        outer = self._divide(layer.out_features, f"outputs of {layer.target}")
        return replace(layer, out_features=outer, split=Split.GATHERED_COLUMNS, ranks=self.ranks)


def _get_kv_width(module: object) -> int:
    """Return the features of all key heads together.

    0 where a module has none of its own.
    """
    heads, width = getattr(module, "num_kv_heads", 0), getattr(module, "head_dim", 0)
    return heads * width if isinstance(heads, int) and isinstance(width, int) else 0


def _is_fused(layer: Linear) -> bool:
    return layer.target in {"qkv_proj", "query_key_value", "c_attn", "Wqkv", "qkv"}


def _is_replicated(module: object, name: str) -> bool:
    """Return whether every rank has all of a layer that others split.

    The gate of a shared expert has a single output.
    """
    return isinstance(module, SharedExpert) and name == "gate"


def _has_full_outputs(module: object) -> bool:
    """Return whether a module needs full outputs of a projection.

    It does if it slices what a projection gives, or normalises all of its heads in one row.
    """
    if isinstance(module, FusedGatedFeedForward):
        return True
    if isinstance(module, Attention):
        return module.query_norm is not None and module.query_norm.size > module.head_dim
    return isinstance(module, SelfAttention) and (
        not module.norm_each_head or len(module.projections) == 1
    )
