"""A training step of the tensors that Unsloth's kernels make and keep."""

from collections.abc import Sequence

import torch
from torch import Tensor

from service.estimator.values.workload import Attention
from tests.unit.probes.trace.unsloth_functions import (
    HALF,
    Checkpoint,
    Gated,
    Layer,
    Loss,
    Norm,
    NormRotate,
    Rotate,
    Shape,
    Together,
    apply,
)
from worker.probes.attention.fake_attention import make_attention
from worker.probes.run.recorder import mark

_attend = make_attention(Attention.SDPA)


class Decoder:
    """The layers of a model."""

    def __init__(self, shape: Shape) -> None:
        """Make the weights, and what stays beside them."""
        self.shape = shape
        query, key = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        largest = max(shape.hidden * shape.inner, shape.hidden * query)
        scratch = torch.empty(largest if shape.quantised else 0, dtype=HALF)
        sizes = {
            "q": (shape.hidden, query),
            "k": (shape.hidden, key),
            "v": (shape.hidden, key),
            "o": (query, shape.hidden),
            "gate": (shape.hidden, shape.inner),
            "up": (shape.hidden, shape.inner),
            "down": (shape.inner, shape.hidden),
        }
        self.blocks = [
            {name: Layer(shape, *size, scratch) for name, size in sizes.items()}
            for _ in range(shape.layers)
        ]
        self.table = torch.empty(shape.words, shape.hidden, dtype=HALF)

    def run_block(self, block: dict[str, Layer], x: Tensor) -> Tensor:
        """Run a layer."""
        in_place = not self.shape.gemma
        y = apply(Norm, x, in_place)
        y = self.attend(block, y)
        middle = x + y
        y = apply(Norm, middle, in_place)
        names = ("gate", "up", "down")
        y = apply(Gated, y, [block[n] for n in names], *self.list_factors(block, *names))
        summed: Tensor = middle + y.view(middle.shape)
        return summed

    def attend(self, block: dict[str, Layer], x: Tensor) -> Tensor:
        """Run attention."""
        shape = self.shape
        names = ("q", "k", "v")
        q, k, v = apply(
            Together, x, [block[n] for n in names], True, *self.list_factors(block, *names)
        )
        q, k, v = (part.view(shape.batch, shape.length, -1, shape.head_dim) for part in (q, k, v))
        if shape.normalises_heads:
            q, k = apply(NormRotate, q), apply(NormRotate, k)
        else:
            q, k = (apply(Rotate, part, shape.tells_positions) for part in (q, k))
        groups = shape.heads // shape.kv_heads
        if groups > 1:
            wide, tall = (
                part[:, :, :, None]
                .expand(-1, -1, -1, groups, -1)
                .reshape(shape.batch, shape.length, shape.heads, shape.head_dim)
                for part in (k, v)
            )
        else:
            wide, tall = k, v
        read = _attend(*(part.transpose(1, 2) for part in (q, wide, tall)), is_causal=True)
        flat = read.transpose(1, 2).reshape(shape.batch, shape.length, -1)
        del wide, tall, read
        y = apply(Together, flat, [block["o"]], False, *self.list_factors(block, "o"))
        mixed: Tensor = y.view(x.shape)
        return mixed

    def list_factors(self, block: dict[str, Layer], *names: str) -> list[Tensor]:
        """Return the adapters' factors of some layers."""
        return [part for name in names for part in (block[name].down, block[name].up)]


def run_step(shape: Shape) -> None:
    """Run forward and backward under marks."""
    model = Decoder(shape)
    mark("forward")
    ids = torch.empty(shape.batch, shape.length, dtype=torch.int64)
    _positions = torch.empty_like(ids) if shape.tells_positions else None
    numel = shape.tokens * shape.hidden
    moves = shape.checkpoints and shape.moves_inputs
    buffers = [torch.empty(numel, dtype=HALF) for _ in range(2 * moves)]
    loss = _run_forward(model, shape, ids, buffers)
    mark("backward")
    loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    mark("end")


def _run_forward(model: Decoder, shape: Shape, ids: Tensor, buffers: Sequence[Tensor]) -> Tensor:
    hidden = _run_layers(model, shape, ids, buffers)
    loss: Tensor = apply(Loss, hidden, model.table, ids, shape)
    return loss


def _run_layers(model: Decoder, shape: Shape, ids: Tensor, buffers: Sequence[Tensor]) -> Tensor:
    embedded = torch.nn.functional.embedding(ids, model.table).requires_grad_()
    x = embedded
    for index, block in enumerate(model.blocks):

        def run(value: Tensor, block: dict[str, Layer] = block) -> Tensor:
            return model.run_block(block, value)

        if shape.checkpoints:
            stays = index == shape.layers - 1 or not buffers
            x = apply(Checkpoint, run, None if stays else buffers[0].view(x.shape), x)
        else:
            x = run(x)
    hidden: Tensor = apply(Norm, x, False)
    return hidden
