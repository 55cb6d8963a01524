"""Weights and layer caches of one rank of a serving engine.

Tensor parallelism is as vLLM's layers do it (``column_parallel``, ``row_parallel``,
``vocab_parallel_embedding.py`` of 0.19.0): rows of embedding and head are padded to 64 and split,
key and value heads are replicated where there are fewer than ranks.
"""

from dataclasses import dataclass, field, replace

from service.estimator.backends.paged_pool.activation_peak import (
    SharedBuffers,
    count_peak_elements,
    find_shared_buffers,
)
from service.estimator.backends.paged_pool.layer_caches import (
    LayerCache,
    LayerState,
    count_kinds,
    merge_caches,
    merge_states,
)
from service.estimator.backends.paged_pool.recorded_ranks import split_recorded
from service.estimator.backends.paged_pool.stage_weights import StageWeights
from service.estimator.backends.paged_pool.vision_towers import split_tower
from service.estimator.model.architecture import Architecture
from service.estimator.model.positions import count_scaled_positions
from service.estimator.model.recorded.narrowing import is_recorded
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.tensor_parallel.local import local_architecture
from service.estimator.model.tensor_parallel.split_plan import SplitPlan
from service.estimator.model.weights.scheme import Packing, Scheme
from service.estimator.model.weights.tensors import Weight
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.memo import keep_latest
from service.estimator.values.units import ceil_div

VOCABULARY_MULTIPLE = 64
"""``DEFAULT_VOCAB_PADDING_SIZE`` of vLLM and SGLang."""
_FP32_TABLE = "gpt_oss"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """One rank of one pipeline stage.

    ``model`` is the full model with this rank's share of heads and features.
    """

    model: Architecture
    weight_bytes: int
    table_bytes: int
    caches: tuple[LayerCache, ...]
    states: tuple[LayerState, ...]
    num_layers: int
    is_first: bool
    is_last: bool
    peak_elements: tuple[int, int]
    """Elements of one token at the widest point of a layer, with xFormers and with FlashAttention.
    """
    layer_bytes: int
    """Bytes of the weights of its layers."""
    shared_buffers: SharedBuffers | None
    """The same with FlashAttention where experts have buffers of their own; None where there are no
    such experts.
    """
    host_bytes: int = 0
    """Bytes of its weights that the host holds."""

    def get_peak_elements(self, *, flash: bool) -> int:
        """Return the elements of one token at a layer's widest point."""
        return self.peak_elements[flash]


ExpertRanks = tuple[int, int, int]
"""Ranks that split one expert, groups of them over which experts are spread, and ranks whose tokens
one group gets.
"""


def get_expert_ranks(layout: Layout) -> ExpertRanks:
    """Return the ranks over which experts are split and spread.

    They are all tensor x data ranks where experts are spread, those of the layers where they are
    not. Ranks that spread experts gather the tokens of all data-parallel ranks (vLLM 0.19.0,
    ``fused_moe/config.py`` and ``prepare_finalize/naive_dp_ep.py``).
    """
    if layout.expert_parallel == 1:
        return layout.tensor_parallel, 1, 1
    return (
        layout.expert_tensor_parallel or layout.tensor_parallel,
        layout.expert_parallel,
        layout.data_parallel,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _RankQuery:
    """A cached question for ranks.

    The model is identified by its spec.
    """

    spec: DecoderSpec
    scheme: Scheme | None
    dtype: DType
    degrees: tuple[int, int]
    experts: ExpertRanks
    tiles: bool
    by_plan: bool
    predictors: int
    state_dtype: DType | None = None
    model: Architecture = field(compare=False, repr=False)

    def leave_out_spread(self) -> "_RankQuery":
        """Return the question for modules, wherever other experts are."""
        return replace(self, experts=(self.experts[0], 1, 1))


def build_ranks(  # noqa: PLR0913 - a model, a layout, and how an engine loads it
    model: Architecture,
    layout: Layout,
    *,
    scheme: Scheme | None,
    dtype: DType,
    tiles: bool = False,
    by_plan: bool = False,
    state_dtype: DType | None = None,
) -> tuple[Rank, ...]:
    """Return one rank of each pipeline stage.

    Stages that are alike are one object. ``tiles`` pads experts in mxfp4. ``by_plan``: a recorded
    model is split by transformers' plan. ``state_dtype`` is that of recurrent states.
    """
    degrees = (layout.tensor_parallel, layout.pipeline_parallel)
    return _build_ranks(
        _RankQuery(
            spec=model.spec,
            scheme=scheme,
            dtype=dtype,
            degrees=degrees,
            experts=get_expert_ranks(layout),
            tiles=tiles,
            by_plan=by_plan,
            predictors=0,
            state_dtype=state_dtype,
            model=model,
        ),
    )


def build_deeper_rank(
    model: Architecture,
    layout: Layout,
    *,
    scheme: Scheme | None,
    dtype: DType,
    deeper: Architecture,
) -> Rank:
    """Return the rank of a model that is made deeper."""
    (rank,) = _build_ranks(
        _RankQuery(
            spec=model.spec,
            scheme=scheme,
            dtype=dtype,
            degrees=(layout.tensor_parallel, 1),
            experts=get_expert_ranks(layout),
            tiles=False,
            by_plan=False,
            predictors=deeper.num_hidden_layers - model.num_hidden_layers,
            model=deeper,
        ),
    )
    return rank


@keep_latest(1024)
def _build_ranks(query: _RankQuery) -> tuple[Rank, ...]:
    _, pipeline = query.degrees
    _, expert_spread, _ = query.experts
    single_stage = replace(query, degrees=(query.degrees[0], 1))
    local = _split_model(single_stage.leave_out_spread())
    stage_weights = StageWeights(
        local,
        scheme=query.scheme,
        dtype=query.dtype,
        expert_spread=expert_spread,
        tiles=query.tiles,
    )
    tables = _count_table_bytes(local, query.dtype)
    layers = split_layers(local.num_hidden_layers, pipeline)
    peak_elements, shared_buffers = _count_widest(single_stage)
    ranks: list[Rank] = []
    distinct: dict[object, Rank] = {}
    start = 0
    for stage, count in enumerate(layers):
        kinds = count_kinds(local, start, start + count)
        first, last = stage == 0, stage == pipeline - 1
        rank = Rank(
            model=local,
            weight_bytes=stage_weights.get_stage_bytes(kinds, is_first=first, is_last=last)
            + tables,
            table_bytes=tables,
            caches=merge_caches(local, kinds),
            states=merge_states(local, kinds, query.dtype, query.state_dtype),
            num_layers=count,
            is_first=first,
            is_last=last,
            peak_elements=peak_elements,
            layer_bytes=stage_weights.get_stage_bytes(kinds, is_first=False, is_last=False),
            shared_buffers=shared_buffers,
        )
        ranks.append(
            distinct.setdefault((rank.weight_bytes, rank.caches, count, first, last), rank)
        )
        start += count
    return tuple(ranks)


def split_layers(num_layers: int, stages: int) -> tuple[int, ...]:
    """Return the layers of each stage.

    What is left over goes to those before the last (vLLM, ``get_pp_indices``).
    """
    if stages > num_layers:
        message = f"pipeline_parallel is {stages}, but the model has {num_layers} layers"
        raise InvalidInputError(message, field="layout.pipeline_parallel")
    layers = [num_layers // stages] * stages
    for index in range(2, num_layers % stages + 2):
        layers[-index] += 1
    return tuple(layers)


@keep_latest(4096)
def _count_widest(query: _RankQuery) -> tuple[tuple[int, int], SharedBuffers | None]:
    """Return a token's elements at the widest point, experts' apart."""
    local, (_, _, num_token_ranks) = _split_model(query.leave_out_spread()), query.experts
    peak_elements = (
        count_peak_elements(local, flash=False, num_token_ranks=num_token_ranks),
        count_peak_elements(local, flash=True, num_token_ranks=num_token_ranks),
    )
    # One kernel runs all of the work of experts in mxfp4.
    if query.scheme is not None and query.scheme.packing is Packing.MXFP4:
        return peak_elements, None
    return peak_elements, find_shared_buffers(local, num_token_ranks=num_token_ranks)


@keep_latest(256)
def _split_model(query: _RankQuery) -> Architecture:
    """Return a rank's part of a model, with its vocabulary padded."""
    model, tensor, expert_tensor = query.model, query.degrees[0], query.experts[0]
    plan = SplitPlan(
        vocabulary=tensor > 1,
        vocabulary_multiple=max(1, VOCABULARY_MULTIPLE // tensor),
        head=tensor > 1 and model.task is None,
        expert_ranks=expert_tensor if model.spec.num_experts else None,
        splits_states=True,
    )
    local = (
        split_recorded(model, tensor, plan, by_plan=query.by_plan)
        if is_recorded(model)
        else local_architecture(model, tensor, plan)
    )
    return _pad_vocabulary(split_tower(local, tensor), tensor, VOCABULARY_MULTIPLE)


def _pad_vocabulary(model: Architecture, tensor: int, multiple: int) -> Architecture:
    """Return the model with its vocabulary padded.

    A split has padded it already.
    """
    if tensor > 1:
        return model
    rows = ceil_div(model.vocab_size, multiple) * multiple
    table = model.embedding
    embedding = Weight(table.name, table.kind, (rows, *table.shape[1:]))
    head = replace(model.head, out_features=rows) if model.task is None else model.head
    return replace(model, embedding=embedding, head=head)


def _count_table_bytes(model: Architecture, dtype: DType) -> int:
    """Return the bytes of rotary tables.

    They are half cosine, half sine of every position (vLLM, ``rotary_embedding/base.py``). A model
    that turns by complex numbers names one table, of as many elements. Positions that are scaled
    linearly are all of those that come of it (``linear_scaling_rope.py``). gpt-oss has its table in
    fp32 (``models/gpt_oss.py``), and names halves.
    """
    positions = count_scaled_positions(model.spec)
    if model.family == _FP32_TABLE and not is_recorded(model):
        return positions * sum(model.rotary_tables) * DType.FP32.bytes_per_element
    if model.family == _FP32_TABLE:
        dtype = DType.FP32
    tables = model.rotary_tables[: max(1, len(model.rotary_tables) // 2)]
    rows = sum(tables) + sum(tables[:1]) * (model.rotary_stretch - 1)
    return positions * rows * dtype.bytes_per_element
