"""A training pass as programs around a stack of layers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from service.estimator.tape.programs.program import (
    Instruction,
    LinearCall,
    Loop,
    Operation,
    Program,
    ValueSpec,
    flatten,
)
from service.estimator.tape.programs.stepped_sizes import AnySize
from service.estimator.values.units import ceil_div

_BESIDE = frozenset({"aten.alias.default", "aten._to_copy.default"})
_SHIFTED_CROSS_ENTROPY = [
    "aten.constant_pad_nd.default",
    "aten.slice.Tensor",
    "aten.clone.default",
    "aten.view.default",
    "aten.view.default",
    "aten._log_softmax.default",
    "aten.nll_loss_forward.default",
]
"""Operators of transformers' ``ForCausalLMLoss``: labels are shifted, logits upcast."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """The batches and lengths at which a recorded pass is right."""

    min_batch: int = 1
    max_batch: int | None = None
    min_length: int = 1
    max_length: int | None = None
    multiple_of: int = 1
    """Tokens of which every length is a multiple."""
    no_multiple_of: int = 0
    """Tokens of which no length is a multiple, 0 for any."""

    @property
    def has_any_length(self) -> bool:
        """Whether no length is left out."""
        return self == Domain(min_batch=self.min_batch, max_batch=self.max_batch)

    def choose_length(self) -> int:
        """Return a length that it has, the shortest or nearly so."""
        length = ceil_div(max(self.min_length, 1), self.multiple_of) * self.multiple_of
        is_left_out = self.no_multiple_of and length % self.no_multiple_of == 0
        return length + 1 if is_left_out else length

    def has(self, *, batched: bool, length: int | None) -> bool:
        """Return whether it has such a batch and length."""
        if (batched and self.max_batch == 1) or (not batched and self.min_batch > 1):
            return False
        if length is None:
            return self.has_any_length
        return (
            self.min_length <= length <= (self.max_length or length)
            and length % self.multiple_of == 0
            and (not self.no_multiple_of or length % self.no_multiple_of > 0)
        )


WHOLE = Domain()
"""Every batch and length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedPass:
    """A forward pass with its backward, in one variant of number formats.

    ``blocks`` are the programs by kind of layer, ``block_inputs`` the outer values that each reads.
    ``prologue`` leads to ``x``, ``epilogue`` from ``output`` of the last layer to ``hidden``, which
    the head reads, ``tail`` from there to ``loss``. ``holds_x``: a name of ``x`` stays until the
    layers are through. ``layer_args`` are what layers are called with beside it.
    """

    values: tuple[ValueSpec, ...]
    num_storages: int
    inputs: tuple[int, ...]
    prologue: tuple[Instruction, ...]
    x: int
    holds_x: bool
    layer_args: tuple[int, ...]
    blocks: tuple[Program, ...]
    block_inputs: tuple[tuple[int, ...], ...]
    output: int
    epilogue: tuple[Instruction, ...]
    hidden: int
    tail: tuple[Instruction, ...]
    loss: int | None
    returned: tuple[int, ...]
    domain: Domain = WHOLE

    @property
    def has_plain_loss(self) -> bool:
        """Whether the tail is a head and its cross entropy alone."""
        tail = tuple(flatten(self.tail))
        operators = [part.operator for part in tail if isinstance(part, Operation)]
        heads = [part for part in tail if isinstance(part, LinearCall)]
        return (
            len(heads) == 1
            and [name for name in operators if name not in _BESIDE] == _SHIFTED_CROSS_ENTROPY
        )


def has_steps(recorded: RecordedPass) -> bool:
    """Return whether some size grows in steps of the length."""
    frames = [(recorded.values, recorded.prologue + recorded.epilogue + recorded.tail)]
    frames += [(block.values, block.instructions) for block in recorded.blocks]
    return any(
        not isinstance(size, tuple)
        for values, instructions in frames
        for size in _iterate_sizes(values, instructions)
    )


def _iterate_sizes(
    values: Sequence[ValueSpec], instructions: Sequence[Instruction]
) -> Iterator[AnySize]:
    for spec in values:
        yield spec.numel
    yield from (part.turns for part in instructions if isinstance(part, Loop))
    for part in flatten(instructions):
        if isinstance(part, Operation):
            yield from (allocation.size for allocation in part.allocated)
            yield from part.scratch
            yield from (event.size for node in part.nodes for event in node.events)
