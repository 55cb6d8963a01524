"""Work of one forward pass on a GPU.

It is products, attention, bytes that element-wise operations move, and operations launched.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import exp
from types import MappingProxyType

from service.estimator.model.architecture import Architecture
from service.estimator.model.pass_context import PassContext
from service.estimator.model.recording import Recording
from service.estimator.model.trees.encoder_decoder import EncoderDecoder
from service.estimator.model.weights.scheme import Packing, Scheme
from service.estimator.passes.config import TrainingPass, get_walk_class, resolve_attention
from service.estimator.passes.recorder import run_training
from service.estimator.speed.counting import CountingTape, Counts
from service.estimator.speed.stacks import StackWork, count_stack_work
from service.estimator.tape import sizes
from service.estimator.tape.graph import Mode
from service.estimator.tape.ledger import Section
from service.estimator.tape.ops.products import allocate_integers
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Attention

FLOPS_PER_PRODUCT = 2
"""One multiplication and one addition per weight and token (arXiv:2001.08361, section 2.1)."""
_MATRIX = 2
_FEW_ROWS, _TILE_ROWS = 128, 128
"""Rows of an expert up to which a grouped product takes small tiles, and what a pair of them holds;
two of the large ones hold twice as much (ATen ``GroupMM.cu``: tiles of 64 and 128 rows, in clusters
of two).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardWork:
    """Work of one forward pass, per token unless noted.

    ``block_weights`` and ``head_weights`` are weights that a token is multiplied with; ``windows``
    pairs the tokens that a layer reads at most with the elements of query and of value that meet
    each key, summed over layers; ``sections`` are the kernels of the whole pass.
    """

    block_weights: int
    head_weights: int
    num_products: int
    product_bytes: int
    """Bytes per token that products read and write."""
    vocab_size: int
    num_attentions: int
    windows: tuple[tuple[int | None, int], ...]
    sections: Mapping[Section, Counts]
    idle_weights: int = 0
    """Weights of experts that a token does not meet: a batch reads them all the same."""
    routed_weights: int = 0
    """Weights of experts that a token meets, which ``block_weights`` has too."""
    met_share: float = 1.0
    """Of the experts, what one token meets."""
    causal: bool = True
    has_fused_attention: bool = True
    """Whether attention is one kernel, and not products and a softmax."""
    scores_dtype: DType | None = None
    """Of batched products, attention's among them; None where there are none."""
    stacks: StackWork | None = None
    """Work of an encoder and a decoder, whose lengths differ."""

    @property
    def forward(self) -> Counts:
        """Kernels of embedding, layers and final norm."""
        return self.sections[Section.FORWARD]

    def count_block_products(self, batch: int, length: int, *, fills_tiles: bool) -> float:
        """Return the products of tokens with the layers' weights."""
        if self.stacks is not None:
            return batch * self.stacks.count_products(length)
        tokens = batch * length
        return tokens * (self.count_filled_weights(tokens) if fills_tiles else self.block_weights)

    def count_head_products(self, batch: int, length: int) -> int:
        """Return the products of tokens with the head's weights."""
        scored = length if self.stacks is None else self.stacks.get_lengths(length)[1]
        return batch * scored * self.head_weights

    def count_filled_weights(self, tokens: int) -> float:
        """Return the weights that a token of grouped products is multiplied with.

        Each expert's rows are filled up to whole tiles, half of one too much in the mean; few rows
        fill one tile of each expert that they meet.
        """
        if not self.routed_weights:
            return self.block_weights
        rows = tokens * self.met_share
        tile = _TILE_ROWS if rows <= _FEW_ROWS else 2 * _TILE_ROWS
        filled = rows + tile / 2 if rows > tile / 2 else tile * (1 - exp(-rows))
        return self.block_weights + self.routed_weights * max(filled / rows - 1, 0)

    def attention_flops(self, batch: int, sequence: int, *, masked: bool = False) -> int:
        """Return the FLOPs of attention.

        They are those of the scores and of their products with values, half of them behind the
        causal mask. A dense mask leaves all of them: no kernel skips what it hides.
        """
        if self.stacks is not None:
            return FLOPS_PER_PRODUCT * batch * self.stacks.count_score_products(sequence)
        total = 0
        for window, width in self.windows:
            keys = (
                sequence / 2
                if window is None or window >= sequence
                else window * (1 - window / (2 * sequence))
            )
            keys = keys if self.causal else min(window or sequence, sequence)
            keys = sequence if masked else keys
            total += round(FLOPS_PER_PRODUCT * width * keys * batch * sequence)
        return total


EXLLAMA_BITS = 4
"""Of GPTQ weights that ExLlama multiplies, in one kernel that is called past the dispatcher
(AutoGPTQ 0.7.1, ``qlinear_exllama.py``: it has no other number of bits).
"""
UNPACKED_ROWS: Mapping[Packing, int] = MappingProxyType({Packing.BLOCKS_4BIT: 5, Packing.GPTQ: 8})
"""Rows from which weights are unpacked to 16 bits first: bitsandbytes multiplies up to four packed
on every GPU (0.50 ``backends/cuda/ops.py``, ``_GEMM_4BIT_CUSTOM_FLOOR_M``), ExLlama fewer than
eight (optimum ``gptq/quantizer.py``, ``matmul_recons_thd``; AutoGPTQ ``exllama_ext.cpp``).
"""


def count_unpacked_bytes(work: ForwardWork, scheme: Scheme | None, rows: int, dtype: DType) -> int:
    """Return the bytes that unpacking for so many rows writes.

    They are read once again by the product. Experts stay as they are.
    """
    if scheme is None or rows < UNPACKED_ROWS.get(scheme.packing, rows + 1):
        return 0
    if scheme.packing is Packing.GPTQ and scheme.bits != EXLLAMA_BITS:
        return 0
    return (work.block_weights - work.routed_weights) * dtype.bytes_per_element


def count_forward_work(
    model: Architecture, *, dtype: DType, attention: Attention, length: int = 0
) -> ForwardWork:
    """Return the work of one forward pass without gradients.

    Its weights are in ``dtype``; some models need the ``length`` of sequences.
    """
    tape = CountingTape(autocast=None, mode=Mode.INFERENCE)
    settings = PassContext(
        dtype=dtype,
        compute_dtype=dtype,
        attention=resolve_attention(model, attention),
        length=length,
        batched=True,
    )
    ctx = Recording(tape, settings)
    walk = get_walk_class(model)(model, ctx)
    tape.free(walk.hidden_states(allocate_integers(tape, sizes.per_token(1))))
    return _build_work(model, tape, dtype)


def count_training_work(model: Architecture, config: TrainingPass) -> ForwardWork:
    """Return the work of one micro batch, forward, loss and backward."""
    tape = CountingTape(autocast=config.autocast)
    run_training(tape, model, config)
    if config.converts_outputs and config.autocast and model.task is None:
        _count_conversion(tape, model, config.autocast)
    work = _build_work(model, tape, config.autocast or config.param_dtype)
    if not isinstance(model, EncoderDecoder):
        return work
    return replace(work, stacks=count_stack_work(model, target_length=config.decoder_length))


def _count_conversion(tape: CountingTape, model: Architecture, dtype: DType) -> None:
    """Count accelerate's cast of logits to fp32 behind autocast."""
    width = dtype.bytes_per_element + DType.FP32.bytes_per_element
    tape.sections[Section.LOSS_FORWARD].add(1, sizes.per_token(model.vocab_size * width), 1)


def _build_work(model: Architecture, tape: CountingTape, dtype: DType) -> ForwardWork:
    active, products, rows, columns = 0, 0, 0, 0
    num_attentions = sum(times for block, times in model.blocks if block.cache_elements_per_token)
    is_fused = tape.sections[Section.FORWARD].attentions > 0
    if not is_fused:
        _add_attentions(tape, num_attentions)
    for block, times in model.blocks:
        matrices = [weight for weight in block.weights() if len(weight.shape) >= _MATRIX]
        active += (sum(weight.numel for weight in matrices) - block.idle_parameters()) * times
        rows += sum(weight.shape[0] for weight in matrices if len(weight.shape) == _MATRIX) * times
        columns += (
            sum(weight.shape[1] for weight in matrices if len(weight.shape) == _MATRIX) * times
        )
        products += len(matrices) * times
    idle = sum(block.idle_parameters() * times for block, times in model.blocks)
    met = model.spec.num_experts_per_token / model.spec.num_experts if idle else 1.0
    return ForwardWork(
        block_weights=active,
        head_weights=model.head.out_features * model.head.in_features
        if model.task is not None
        else model.vocab_size * model.spec.hidden_size,
        num_products=products + 1,
        product_bytes=(rows + columns) * dtype.bytes_per_element,
        vocab_size=model.vocab_size,
        num_attentions=num_attentions,
        windows=_list_windows(model),
        idle_weights=idle,
        routed_weights=round(idle * met / (1 - met)) if idle else 0,
        met_share=met,
        causal=model.shifts_labels,
        has_fused_attention=is_fused,
        scores_dtype=_get_scores_dtype(tape),
        sections=tape.sections,
    )


def _add_attentions(tape: CountingTape, num_attentions: int) -> None:
    """Count attentions without a kernel of their own.

    Heads are split and rotated by as many views.
    """
    for section in (Section.FORWARD, Section.BACKWARD):
        if section in tape.sections:
            tape.sections[section].attentions = num_attentions


def _get_scores_dtype(tape: CountingTape) -> DType | None:
    """Return the dtype of scores: fp32 where any batched product is."""
    dtypes = tape.batched_dtypes
    return DType.FP32 if DType.FP32 in dtypes else next(iter(dtypes), None)


def _list_windows(model: Architecture) -> tuple[tuple[int | None, int], ...]:
    """Return the query and value elements that meet each key, per window.

    They are those of all layers that attend.
    """
    spec, widths = model.spec, dict[int | None, int]()
    for block, times in model.blocks:
        if block.cache_elements_per_token or not model.shifts_labels:
            window = getattr(block, "cache_window", None)
            widths[window] = (
                widths.get(window, 0) + 2 * spec.num_attention_heads * spec.head_dim * times
            )
    return tuple(widths.items())
