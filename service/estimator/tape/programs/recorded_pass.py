"""A training pass as programs around a stack of layers."""

from dataclasses import dataclass

from service.estimator.tape.programs.program import Instruction, Program, ValueSpec


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
    loss: int
    returned: tuple[int, ...]
