"""A training pass as programs around a stack of layers."""

from dataclasses import dataclass

from service.estimator.tape.programs.program import (
    Instruction,
    LinearCall,
    Operation,
    Program,
    ValueSpec,
)

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

    @property
    def has_plain_loss(self) -> bool:
        """Whether the tail is a head and its cross entropy alone."""
        operators = [part.operator for part in self.tail if isinstance(part, Operation)]
        heads = [part for part in self.tail if isinstance(part, LinearCall)]
        return (
            len(heads) == 1
            and [name for name in operators if name not in _BESIDE] == _SHIFTED_CROSS_ENTROPY
        )
