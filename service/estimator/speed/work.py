"""Work of one forward pass on a GPU.

It is products, attention, bytes that element-wise operations move, and operations launched.
"""

from dataclasses import dataclass

from service.estimator.model.architecture import Architecture
from service.estimator.model.pass_context import PassContext
from service.estimator.model.recording import Recording
from service.estimator.passes.step import ModelWalk
from service.estimator.tape import sizes
from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Category, Section, Storage
from service.estimator.tape.ops.products import allocate_integers, end_autocast
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Attention, Lora

FLOPS_PER_PRODUCT = 2
"""One multiplication and one addition per weight and token (arXiv:2001.08361, section 2.1)."""
MOVED_PER_WRITTEN = 3
"""A binary element-wise operation reads two operands for each result that it writes."""
_MATRIX = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardWork:
    """Work of one forward pass, per token unless noted.

    ``block_weights`` and ``head_weights`` are weights that a token is multiplied with; ``windows``
    pairs the tokens that a layer reads at most with the elements of query and of value that meet
    each key, summed over layers; ``moved`` is bytes as a polynomial in batch and sequence,
    ``launches`` are operations for the whole pass.
    """

    block_weights: int
    head_weights: int
    num_products: int
    product_bytes: int
    """Bytes per token that products read and write."""
    vocab_size: int
    windows: tuple[tuple[int | None, int], ...]
    moved: Size
    launches: int

    def attention_flops(self, batch: int, sequence: int) -> int:
        """Return the FLOPs of attention.

        They are those of the scores and of their products with values, half of them behind the
        causal mask.
        """
        total = 0
        for window, width in self.windows:
            keys = (
                sequence / 2
                if window is None or window >= sequence
                else window * (1 - window / (2 * sequence))
            )
            total += round(FLOPS_PER_PRODUCT * width * keys * batch * sequence)
        return total


class _CountingTape(Tape):
    """Tape that adds up allocations, repeats included."""

    written: Size = sizes.ZERO
    launches: int = 0

    def allocate(self, category: Category, size: Size) -> Storage:
        self.written = sizes.add(self.written, sizes.scale(size, self.repeat_count))
        self.launches += self.repeat_count
        return super().allocate(category, size)


def count_forward_work(
    model: Architecture,
    *,
    dtype: DType,
    autocast: DType | None,
    attention: Attention,
    lora: Lora | None = None,
    length: int = 0,
) -> ForwardWork:
    """Return the work of one forward pass.

    It has ``dtype`` weights and adapters; some models need the ``length`` of sequences.
    """
    tape = _CountingTape(Section.FORWARD, Mode.INFERENCE, autocast=autocast)
    settings = PassContext(
        dtype=dtype, compute_dtype=dtype, attention=attention, lora=lora, length=length
    )
    ctx = Recording(tape, settings)
    walk = ModelWalk(model, ctx)
    hidden = walk.hidden_states(allocate_integers(tape, sizes.per_token(1)))
    tape.free(hidden)
    end_autocast(tape)
    active, products, rows, columns = 0, 0, 0, 0
    for block, times in model.blocks:
        matrices = [weight for weight in block.weights() if len(weight.shape) >= _MATRIX]
        active += (sum(weight.numel for weight in matrices) - block.idle_parameters()) * times
        rows += sum(weight.shape[0] for weight in matrices if len(weight.shape) == _MATRIX) * times
        columns += (
            sum(weight.shape[1] for weight in matrices if len(weight.shape) == _MATRIX) * times
        )
        products += len(matrices) * times
    width = (autocast or dtype).bytes_per_element
    return ForwardWork(
        block_weights=active,
        head_weights=model.vocab_size * model.spec.hidden_size,
        num_products=products + 1,
        product_bytes=(rows + columns) * width,
        vocab_size=model.vocab_size,
        windows=_list_windows(model),
        moved=sizes.scale(
            sizes.subtract(tape.written, sizes.per_token(rows * width)), MOVED_PER_WRITTEN
        ),
        launches=tape.launches,
    )


def _list_windows(model: Architecture) -> tuple[tuple[int | None, int], ...]:
    """Return the query and value elements that meet each key, per window.

    They are those of all layers that attend.
    """
    spec, widths = model.spec, dict[int | None, int]()
    for block, times in model.blocks:
        if block.cache_elements_per_token:
            window = getattr(block, "cache_window", None)
            widths[window] = (
                widths.get(window, 0) + 2 * spec.num_attention_heads * spec.head_dim * times
            )
    return tuple(widths.items())
