"""Settings of a recorded pass."""

from dataclasses import dataclass

from service.estimator.model.adapters.parameters import is_adapted
from service.estimator.model.adapters.stacks import StackAdapters
from service.estimator.model.images import Images
from service.estimator.model.saved_modules import is_saved_layer
from service.estimator.model.weights.quantized_layers import is_quantised
from service.estimator.model.weights.scheme import Scheme
from service.estimator.model.weights.tensors import Linear, Weight
from service.estimator.tape.graph import Tape
from service.estimator.tape.offloaded_checkpoint import Checkpoint
from service.estimator.tape.ops.kv_cache_update import CacheState
from service.estimator.tape.pass_shape import PassShape
from service.estimator.values.adapters.lora_kernels import LoraKernel
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import ContextMethod
from service.estimator.values.units import ceil_div
from service.estimator.values.workload import Attention, Lora

_OPEN_SHAPE = PassShape()
"""Every position is a query, and no window cuts what it reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassContext:
    """Settings of one pass, which no module of it changes.

    ``shape``, ``cache``, ``padded`` and ``window_reached`` are those that it begins with: a module
    may record another tower or another stack with its own.
    """

    dtype: DType
    """Number format of the weights."""
    compute_dtype: DType
    """Number format of products with quantised weights."""
    input_dtype: DType | None = None
    """Number format of a batch's floats, where they are cast to the weights' before the pass."""
    buffer_dtype: DType | None = None
    """Number format of buffers, where they are left as they are loaded and weights are cast."""
    attention: Attention
    """The attention kernel that runs."""
    trains_all: bool = False
    """Whether the base weights get gradients."""
    frozen: tuple[str, ...] = ()
    """Kinds of modules that are not trained."""
    lora: Lora | None = None
    saved: frozenset[str] = frozenset()
    """Names of the tensors that are trained in full beside adapters."""
    stacks: StackAdapters | None = None
    """Adapters of stacked experts."""
    scheme: Scheme | None = None
    """Storage of the linear layers, where they are quantised."""
    shape: PassShape = _OPEN_SHAPE
    cache: CacheState | None = None
    """State of the key/value cache; None where nothing is cached."""
    static_cache_length: int | None = None
    """Tokens that attention reads of a static cache, whether they are there or not."""
    cudnn: bool = False
    """Whether SDPA takes cuDNN's attention where it would take flash attention."""
    context_ranks: int = 1
    """Ranks that share every sequence."""
    context_method: ContextMethod = ContextMethod.RING
    padded: bool = False
    window_reached: bool = False
    batched: bool = False
    """Whether there is more than one sequence, where that decides what is copied."""
    length: int | None = None
    """Tokens of a sequence, where the model's tensors are no polynomial of it."""
    decoder_length: int | None = None
    """Tokens of a decoder beside an encoder; None is as many as the sequence has."""
    images: Images | None = None
    copies_experts: bool = False
    """Whether each token gets copies of its experts' weights, which one batched product reads."""
    balances_experts: bool = False
    """Whether the loss reads the logits of every layer's router."""
    checkpoint: Checkpoint = Tape.checkpoint
    """Runs a block that backward computes again."""
    checkpointed: bool = False
    """Whether all blocks are computed again in backward."""
    recompute_every: int | None = None
    """Interval of layers recomputed in backward: one in so many."""
    recompute_first: bool = False
    """Whether the first of each interval is recomputed, rather than the last."""
    last_differs: bool = False
    """Whether the last of equal layers makes gradients that the others add to."""
    copies_logits: bool = False
    """Whether the loss shifts its logits by a copy."""
    returns_fp32: bool = False
    """Whether the model casts its logits to fp32 itself."""
    fuses_kernels: bool = False
    """Whether kernels run norms and rotations: Liger's, foak's, Unsloth's or inductor's."""
    fuses_gates: bool = False
    """Whether Liger's kernels run gated products, or inductor's."""
    shares_casts: bool = False
    """Whether a norm writes what autocast's products read, once for all of them."""
    normalises_in_place: bool = False
    """Whether they write a norm's gradient over that of its output."""
    unsloth: bool = False
    """Whether Unsloth's functions run layers with adapters, in place of PEFT's modules."""
    foak: bool = False
    """Whether foak's functions run attention's projections with their adapters."""
    position_ids: bool = False
    """Whether Unsloth's rotations are told positions: they write new tensors then."""

    @property
    def has_leaf_input(self) -> bool:
        """Whether embeddings without a gradient are made a leaf.

        Unsloth makes them one, checkpoints or not (``unsloth_zoo/training_utils.py``,
        ``prepare_model_for_training``), and so does axolotl (0.19 ``loaders/adapter.py``,
        ``load_adapter``).
        """
        return self.checkpointed or self.unsloth or bool(self.lora_kernels)

    @property
    def lora_kernels(self) -> tuple[LoraKernel, ...]:
        """Layers that axolotl's functions run with their adapters."""
        return () if self.lora is None else self.lora.kernels

    @property
    def ends_tables_early(self) -> bool:
        """Whether checkpoints end with their layer's backward."""
        return self.checkpointed and self.checkpoint == Tape.checkpoint

    @property
    def ends_tables_late(self) -> bool:
        """Whether checkpoints hold the arguments of layers to the end.

        The function of a reentrant one does until all of backward is over, that of the embedding
        too.
        """
        return self.checkpointed and self.checkpoint != Tape.checkpoint

    def has_adapter(self, layer: Linear) -> bool:
        """Return whether a layer carries an adapter."""
        if self.lora is None or is_saved_layer(layer, self.saved):
            return False
        merged = () if self.stacks is None else self.stacks.merged_names
        return is_adapted(layer, self.lora, merged)

    def packs(self, layer: Linear) -> bool:
        """Return whether a layer's weight is quantised.

        One that is trained in full is not.
        """
        if self.scheme is None or is_saved_layer(layer, self.saved):
            return False
        return is_quantised(layer, self.scheme)

    def count_gradient_elements(self, weight: Weight) -> int:
        """Return the elements that a stored gradient counts as.

        They are of the adapters' format where there are adapters, rounded up.
        """
        if self.lora is None or weight.name not in self.saved:
            return weight.numel
        own, counted = self.dtype.bytes_per_element, self.lora.dtype.bytes_per_element
        return ceil_div(weight.numel * own, counted)
