"""One micro-batch on one chunk of torchtitan's pipeline.

The weights of a stage stay gathered for a step and its gradients are added up unsharded, so that
no unit comes and goes (torch 2.13 ``distributed/pipelining/stage.py``,
``backward_maybe_with_nosync``). A chunk's output lives until its backward (``fwd_cache``); what it
receives lies in buffers of its own.
"""

from dataclasses import dataclass, replace

from service.estimator.backends.torchtitan.step import RankStep
from service.estimator.model.architecture import Architecture
from service.estimator.model.recording import Recording
from service.estimator.model.repeats import record_periods
from service.estimator.passes.config import (
    PeakCandidates,
    TrainingPass,
    build_training_context,
)
from service.estimator.passes.losses import record_loss
from service.estimator.passes.step import ModelWalk
from service.estimator.tape import sizes
from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Category, Section
from service.estimator.tape.nodes import Node, Value
from service.estimator.tape.sizes import Size


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePart:
    """Part of a model on one chunk."""

    num_layers: int
    has_embedding: bool
    has_loss: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRecord:
    """Peak candidates of a chunk, and what a micro-batch keeps.

    ``tables`` are made once for all micro-batches.
    """

    peak_candidates: PeakCandidates
    retained: Size
    tables: Size
    output_gradients: Size
    """Gradients of all products' outputs, which a split backward keeps."""


def cut_part(model: Architecture, part: StagePart) -> Architecture:
    """Return the weights of a chunk alone.

    Tables that it has not are without rows.
    """
    embedding, head, norm = model.embedding, model.head, model.final_norm
    if not part.has_embedding:
        embedding = replace(embedding, shape=(0, *embedding.shape[1:]))
    if not part.has_loss:
        head, norm = replace(head, out_features=0), None
    return replace(
        model.with_layers(part.num_layers), embedding=embedding, head=head, final_norm=norm
    )


def record_part(model: Architecture, config: TrainingPass, part: StagePart) -> PartRecord:
    """Record what one micro-batch allocates on a chunk.

    ``model`` has all layers.
    """
    tape = Tape(Section.FORWARD, Mode.RECORDING, autocast=config.autocast, accumulating=True)
    cut = model.with_layers(part.num_layers)
    walk_class = _RankPart if model.walker is not None else _Part
    walk = walk_class(cut, Recording(tape, build_training_context(cut, config), units=None))
    last = walk.run_forward(config, part)
    tables = sizes.total([storage.size for storage in walk.tables])
    retained = sizes.subtract(sizes.total(tape.ledger.snapshot().values()), tables)
    tape.ledger.enter(Section.LOSS_BACKWARD if part.has_loss else Section.BACKWARD)
    if part.has_loss:
        walk.backward(last)
    else:
        assert last.node is not None  # noqa: S101 - a layer made it
        last.node.grad = tape.allocate(Category.ACTIVATIONS, sizes.constant(0))
        tape.run_backward()
    return PartRecord(
        peak_candidates=tape.ledger.find_peak_candidates(),
        retained=retained,
        tables=tables,
        output_gradients=_sum_output_gradients(cut, config, part),
    )


def _sum_output_gradients(model: Architecture, config: TrainingPass, part: StagePart) -> Size:
    widths = sum(
        layer.out_features * count for block, count in model.blocks for layer in block.linears()
    )
    if part.has_loss:
        widths += model.head.out_features
    return sizes.per_token(widths * config.param_dtype.bytes_per_element)


class _Part(ModelWalk):
    """Walk over one chunk."""

    def run_forward(self, config: TrainingPass, part: StagePart) -> Value:
        """Record a chunk's layers; return the loss, or what is sent on."""
        tape, model, ctx = self.tape, self.model, self.ctx
        x = self._receive() if not part.has_embedding else self._embed()
        ctx.table_dtype = model.rotary_dtype or x.dtype
        self._make_tables(x.dtype)
        tape.hook(self.drop_tables)
        for index, (members, times) in enumerate(model.runs()):
            x = record_periods(ctx, members, times, f"{index}.", x)
        if not part.has_loss or model.final_norm is None:
            return x
        y = ctx.norm(model.final_norm, x, "")
        tape.free(x)
        if config.loss is not None:
            return record_loss(self, y, config.loss, keeps_logits=True)
        return self.loss(y, keeps_logits=True)

    def _embed(self) -> Value:
        embedded = self._embedded(self.inputs())
        self._hold_embedding(embedded)
        self.tape.free(*embedded.names, *embedded.layer_args)
        return embedded.x

    def _receive(self) -> Value:
        """Return the hidden state in its buffer, which is counted apart."""
        tape, ctx = self.tape, self.ctx
        nothing = tape.allocate(Category.ACTIVATIONS, sizes.constant(0))
        numel = ctx.shape.tokens(self.model.spec.hidden_size)
        x = Value(nothing, numel, ctx.settings.dtype)
        x.node, x.requires_grad = tape.append(Node([], lambda _: None)), True
        return x


class _RankPart(_Part, RankStep):
    """Walk over one chunk on one of several tensor-parallel ranks."""
