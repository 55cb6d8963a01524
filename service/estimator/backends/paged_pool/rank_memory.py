"""What one rank of a serving engine holds: its share of the weights and of the layers' caches.

Tensor parallelism as vLLM's layers do it (``column_parallel``, ``row_parallel``, ``vocab_parallel_embedding.py`` of 0.19.0):
rows of embedding and head are padded to 64 and split, key and value heads are replicated where there are fewer than ranks.
"""

from dataclasses import dataclass, field, replace
from functools import lru_cache

from service.estimator.backends.paged_pool.activation_peak import Apart, apart, widest_layer
from service.estimator.backends.paged_pool.marlin_padding import tiled
from service.estimator.backends.paged_pool.vision_towers import split_tower
from service.estimator.memory.kv_cache import engine_elements, window_of
from service.estimator.memory.overheads.allocator_rounding import rounding_bytes
from service.estimator.model.architecture import Architecture
from service.estimator.model.quantization.weights import placements, stored_bytes
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.tensor_parallel.local import local_architecture
from service.estimator.model.tensor_parallel.split_plan import SplitPlan
from service.estimator.model.weights.scheme import Packing, Scheme
from service.estimator.model.weights.tensors import Weight
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.units import ceil_div

VOCABULARY_MULTIPLE = 64
"""``DEFAULT_VOCAB_PADDING_SIZE`` of vLLM and SGLang."""
_EXPERTS = "mlp_experts"
_FP32_TABLE = "gpt_oss"
_MERGED = (frozenset({"q_proj", "k_proj", "v_proj"}), frozenset({"gate_proj", "up_proj"}))
"""Layers that engines load as one tensor (``QKVParallelLinear``, ``MergedColumnParallelLinear``)."""


@dataclass(frozen=True, slots=True)
class LayerCache:
    """Layers of one kind on a rank: elements that one of them caches for a token, its window, and how many there are."""

    elements_per_token: int
    window: int | None
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """One rank of one pipeline stage; ``model`` is the whole model with this rank's share of heads and features."""

    model: Architecture
    weight_bytes: int
    table_bytes: int
    caches: tuple[LayerCache, ...]
    num_layers: int
    is_first: bool
    is_last: bool
    widths: tuple[int, int]
    """Elements of one token at the widest point of a layer, with xFormers and with FlashAttention."""
    apart: Apart | None
    """The same with FlashAttention where experts have buffers of their own; None where there are no such experts."""

    def widest(self, *, flash: bool) -> int:
        """Return the elements of one token at the widest point of a layer."""
        return self.widths[flash]


ExpertRanks = tuple[int, int, int]
"""How many ranks split one expert, over how many groups of them experts are spread, and whose tokens one group gets."""


def expert_ranks(layout: Layout) -> ExpertRanks:
    """Return how experts are shared out: over all tensor x data ranks where they are spread, as the layers where they are not.

    Ranks that spread experts gather the tokens of all data-parallel ranks (vLLM 0.19.0, ``fused_moe/config.py`` and
    ``prepare_finalize/naive_dp_ep.py``).
    """
    if layout.expert_parallel == 1:
        return layout.tensor_parallel, 1, 1
    return layout.expert_tensor_parallel or layout.tensor_parallel, layout.expert_parallel, layout.data_parallel


@dataclass(frozen=True, slots=True)
class _Question:
    """What ranks are asked for; the model is known by its numbers."""

    spec: DecoderSpec
    scheme: Scheme | None
    dtype: DType
    degrees: tuple[int, int]
    experts: ExpertRanks
    multiple: int
    tiles: bool
    model: Architecture = field(compare=False, repr=False)


def ranks_of(
    model: Architecture,
    layout: Layout,
    *,
    scheme: Scheme | None,
    dtype: DType,
    multiple: int = VOCABULARY_MULTIPLE,
    tiles: bool = False,
) -> tuple[Rank, ...]:
    """Return one rank of each pipeline stage, stages that are alike as one object.

    ``multiple`` pads the vocabulary, and ``tiles`` experts in mxfp4.
    """
    degrees = (layout.tensor_parallel, layout.pipeline_parallel)
    return _ranks(_Question(model.spec, scheme, dtype, degrees, expert_ranks(layout), multiple, tiles, model))


def drafted(ranks: tuple[Rank, ...], draft: Architecture | None, layout: Layout, dtype: DType) -> tuple[Rank, ...]:
    """Return the ranks with a draft model beside the target: its weights, split alike, and its layers' caches."""
    if draft is None:
        return ranks
    if layout.pipeline_parallel > 1:
        raise NotModelledError("a draft model beside a pipeline", field="layout.pipeline_parallel", modelled=["1"])
    (beside,) = ranks_of(draft, layout, scheme=draft.quantization, dtype=dtype)
    (rank,) = ranks
    weights, tables = rank.weight_bytes + beside.weight_bytes, rank.table_bytes + beside.table_bytes
    return (replace(rank, weight_bytes=weights, table_bytes=tables, caches=(*rank.caches, *beside.caches)),)


@lru_cache(1024)
def _ranks(asked: _Question) -> tuple[Rank, ...]:
    tensor, pipeline = asked.degrees
    split_by, _, gathered = asked.experts
    local = _padded(_split(asked.model, tensor, split_by, asked.multiple), tensor, asked.multiple)
    sized = _Sized(local, asked)
    tables = _table_bytes(local, asked.dtype)
    layers = stage_layers(local.num_hidden_layers, pipeline)
    widths = widest_layer(local, flash=False, gathered=gathered), widest_layer(local, flash=True, gathered=gathered)
    # One kernel runs all of the work of experts in mxfp4.
    whole = asked.scheme is not None and asked.scheme.packing is Packing.MXFP4
    ranks: list[Rank] = []
    alike: dict[object, Rank] = {}
    start = 0
    for stage, count in enumerate(layers):
        kinds = _kinds(local, start, start + count)
        first, last = stage == 0, stage == pipeline - 1
        rank = Rank(
            model=local,
            weight_bytes=sized.stage(kinds, is_first=first, is_last=last) + tables,
            table_bytes=tables,
            caches=_caches(local, kinds),
            num_layers=count,
            is_first=first,
            is_last=last,
            widths=widths,
            apart=None if whole else apart(local, gathered=gathered),
        )
        ranks.append(alike.setdefault((rank.weight_bytes, rank.caches, count, first, last), rank))
        start += count
    return tuple(ranks)


def stage_layers(num_layers: int, stages: int) -> tuple[int, ...]:
    """Return the layers of each stage: what is left over goes to those before the last (vLLM, ``get_pp_indices``)."""
    if stages > num_layers:
        message = f"pipeline_parallel is {stages}, but the model has {num_layers} layers"
        raise InvalidInputError(message, field="layout.pipeline_parallel")
    layers = [num_layers // stages] * stages
    for index in range(2, num_layers % stages + 2):
        layers[-index] += 1
    return tuple(layers)


def _split(model: Architecture, tensor: int, expert_tensor: int, multiple: int) -> Architecture:
    plan = SplitPlan(
        vocabulary=tensor > 1,
        vocabulary_multiple=max(1, multiple // tensor),
        head=tensor > 1,
        expert_ranks=expert_tensor if model.spec.num_experts else None,
    )
    return split_tower(local_architecture(model, tensor, plan), tensor)


def _padded(model: Architecture, tensor: int, multiple: int) -> Architecture:
    """Return the model with its vocabulary padded, which a split has done already."""
    if tensor > 1:
        return model
    rows = ceil_div(model.vocab_size, multiple) * multiple
    table = model.embedding
    embedding = Weight(table.name, table.kind, (rows, *table.shape[1:]))
    return replace(model, embedding=embedding, head=replace(model.head, out_features=rows))


def _table_bytes(model: Architecture, dtype: DType) -> int:
    """Return the bytes of rotary tables: half cosine, half sine of every position (vLLM, ``rotary_embedding/base.py``).

    A model that turns by complex numbers names one table, of as many elements. Positions that are scaled linearly are all of
    those that come of it (``linear_scaling_rope.py``). gpt-oss has its table in fp32 (``models/gpt_oss.py``), and names halves.
    """
    if model.family == _FP32_TABLE:
        return model.spec.max_position_embeddings * sum(model.rotary_tables) * DType.FP32.bytes_per_element
    tables = model.rotary_tables[: max(1, len(model.rotary_tables) // 2)]
    rows = sum(tables) + sum(tables[:1]) * (model.rotary_stretch - 1)
    return model.spec.max_position_embeddings * rows * dtype.bytes_per_element


def _kinds(model: Architecture, start: int, end: int) -> tuple[int, ...]:
    """Return how many layers of each kind stand between two layers."""
    if model.order:
        return tuple(model.order[start:end].count(kind) for kind in range(len(model.blocks)))
    counts, first = [], 0
    for _, count in model.blocks:
        counts.append(max(0, min(end, first + count) - max(start, first)))
        first += count
    return tuple(counts)


def _caches(model: Architecture, kinds: tuple[int, ...]) -> tuple[LayerCache, ...]:
    """Return the caches of a stage, kinds that cache alike together."""
    found: dict[tuple[int, int | None], int] = {}
    for (block, _), count in zip(model.blocks, kinds, strict=True):
        key = (engine_elements(block), window_of(block))
        if count and key[0]:
            found[key] = found.get(key, 0) + count
    return tuple(LayerCache(elements, window, count) for (elements, window), count in found.items())


class _Sized:
    """Bytes of a rank's weights, by where they stand; large tensors with what the allocator does not split off."""

    def __init__(self, model: Architecture, asked: _Question) -> None:
        self.model, self.dtype = model, asked.dtype
        _, expert, _ = asked.experts
        if expert > 1 and model.spec.num_experts % expert:
            message = f"expert_parallel {expert} does not divide {model.spec.num_experts} experts"
            raise InvalidInputError(message, field="layout.expert_parallel")
        total = experts = 0
        sizes = _sizes(model, asked)
        for weight, size, _ in sizes:
            total += size
            experts += size if weight.kind == _EXPERTS else 0
        rounding = rounding_bytes(_tensors(sizes))
        self.blocks = total - experts + ceil_div(experts, expert) - self._front() - self._end() + rounding
        self.numel = [sum(weight.numel for weight in block.weights()) for block, _ in model.blocks]

    def stage(self, kinds: tuple[int, ...], *, is_first: bool, is_last: bool) -> int:
        """Return the bytes of one stage; a tied head stands on the last stage again."""
        every = sum(numel * count for numel, (_, count) in zip(self.numel, self.model.blocks, strict=True))
        here = sum(numel * count for numel, count in zip(self.numel, kinds, strict=True))
        outside = (self._front() if is_first else 0) + (self._end() if is_last else 0)
        if is_last and not is_first and self.model.tied:
            outside += self.model.embedding.numel * self.dtype.bytes_per_element
        return self.blocks * here // every + outside

    def _front(self) -> int:
        model = self.model
        weights = [model.embedding, *([model.position_embedding] if model.position_embedding is not None else [])]
        return sum(weight.numel for weight in (*weights, *model.stem)) * self.dtype.bytes_per_element

    def _end(self) -> int:
        model = self.model
        head = () if model.tied else tuple(model.head.weights())
        norm = tuple(model.final_norm.weights()) if model.final_norm is not None else ()
        return sum(weight.numel for weight in (*head, *norm)) * self.dtype.bytes_per_element


def _sizes(model: Architecture, asked: _Question) -> list[tuple[Weight, int, int]]:
    """Return every weight with its bytes, all of its occurrences together, and their number."""
    scheme, dtype = asked.scheme, asked.dtype
    if scheme is None:
        return [(weight, weight.numel * count * dtype.bytes_per_element, count) for weight, count in model.weights()]
    padded = asked.tiles and scheme.packing is Packing.MXFP4
    return [
        (placed.weight, stored_bytes(placed, scheme, dtype).total, placed.packed + placed.kept)
        for placed in (tiled(one) if padded else one for one in placements(model, scheme))
    ]


def _tensors(sizes: list[tuple[Weight, int, int]]) -> list[tuple[int, int]]:
    """Return the bytes of each matrix and how often it occurs: projections of one input are one matrix."""
    merged: list[tuple[int, int]] = []
    previous = None
    for weight, size, count in (entry for entry in sizes if len(entry[0].shape) > 1):
        name = weight.name.rpartition(".")[0].rpartition(".")[2]
        group = next((group for group in _MERGED if name in group), None)
        if group is not None and group == previous and merged:
            merged[-1] = (merged[-1][0] + size // count, count)
        else:
            merged.append((size // max(count, 1), count))
        previous = group
    return merged
