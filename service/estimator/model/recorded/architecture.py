"""Trees of models whose passes were recorded."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from service.estimator.model.architecture import Architecture
from service.estimator.model.recorded.completion import complete_recording
from service.estimator.model.recorded.kinds import count_idle_parameters
from service.estimator.model.recorded.outer_layers import (
    OuterLayer,
    divides_steps,
    list_outer_layers,
)
from service.estimator.model.recorded.recorded_model import (
    RecordedLayer,
    RecordedModel,
    RecordedSpec,
    SequenceState,
)
from service.estimator.model.recorded.running import (
    hold_previous,
    shares_gradients,
    update_cache,
)
from service.estimator.model.recorded.unread import list_idle_layers, list_unread
from service.estimator.model.recorded.walker import WALKER
from service.estimator.model.recording import Recording
from service.estimator.model.weights.gguf_bytes import GgufBytes
from service.estimator.model.weights.scheme import Scheme
from service.estimator.model.weights.tensors import Linear, Weight
from service.estimator.model.weights.unpacked import UnpackedWeights
from service.estimator.tape.ledger import Category
from service.estimator.tape.nodes import Parameter, Value
from service.estimator.tape.programs.interpreter import Frame
from service.estimator.tape.programs.leftovers import find_left
from service.estimator.tape.programs.program import Operation, flatten
from service.estimator.tape.sizes import count_rows
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import NotModelledError

_LATENT = "kv_b_proj"
"""Layer that makes heads of a cached latent vector (arXiv:2405.04434)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedBlock:
    """One kind of layer of a recorded model."""

    kind: int
    layer: RecordedLayer
    spec: RecordedSpec

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers in order."""
        return self.layer.linears

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        yield from self.layer.weights

    def idle_parameters(self) -> int:
        """Return the parameters that one token does not use."""
        return count_idle_parameters(self.layer, self.spec)

    @property
    def cache_elements_per_token(self) -> int:
        """Elements of key and value that a cache keeps per token."""
        return self.layer.cache_elements

    @property
    def projected_elements_per_token(self) -> int:
        """Elements that an engine caches for one token."""
        cache = self.layer.cache
        if cache is None:
            return self.layer.cache_elements
        return sum(part.elements for part in cache.caches)

    @property
    def cache_window(self) -> int | None:
        """The most tokens that the layer's cache keeps; None is all."""
        cache = self.layer.cache
        return self.layer.cache_window if cache is None else cache.window

    @property
    def states(self) -> tuple[SequenceState, ...]:
        """States that the layer keeps of each sequence."""
        return () if self.layer.cache is None else self.layer.cache.states

    def state_bytes(self, dtype: DType) -> int:
        """Return the bytes of states of one sequence.

        A convolution's last inputs are in ``dtype``, and what has come of all tokens in fp32.
        """
        return sum(
            prod(state.convolution) * dtype.bytes_per_element * bool(state.convolution)
            + prod(state.recurrent) * DType.FP32.bytes_per_element * bool(state.recurrent)
            for state in self.states
        )

    @property
    def is_latent(self) -> bool:
        """Whether all heads read one cached vector (arXiv:2405.04434)."""
        return any(part.target == _LATENT for part in self.layer.linears)

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Run the layer's program; its input is dropped at its end."""
        outer, recorded = ctx.recorded_frame, ctx.recorded_pass
        assert outer is not None  # noqa: S101 - the walk has made both
        assert recorded is not None  # noqa: S101 - as above
        program = recorded.blocks[self.kind]
        weights = {weight.name: weight for weight in self.layer.weights}
        layers = {layer.name: layer for layer in self.layer.linears}

        def get_parameter(name: str) -> Parameter | None:
            weight = weights.get(name)
            if weight is None:
                return outer.get_parameter(name)
            return ctx.parameter(weight, scope)

        frame = Frame(
            ctx.tape,
            program.values,
            program.num_storages,
            call_linear=lambda name, value, numel: ctx.linear(
                layers[name], value, scope, rows=count_rows(numel, layers[name].out_features)
            ),
            get_parameter=get_parameter,
            update_cache=partial(update_cache, ctx),
        )
        frame.length = ctx.settings.length
        frame.bind(0, x)
        for number, source in enumerate(recorded.block_inputs[self.kind], start=1):
            frame.bind(number, outer.get_value(source))
        left = find_left(program)
        keeps_states = bool(self.states) and ctx.cache is not None
        previous = [] if keeps_states else hold_previous(ctx, left)
        frame.run(program.instructions, Category.ACTIVATIONS)
        output = frame.get_value(program.output)
        ctx.tape.free(x, *frame.cached)
        if keeps_states:
            # What is left are its states, which the cache keeps until the last token.
            return output
        own = [frame.storages[storage] for storage, _ in left]
        ctx.tape.release(*previous, *(storage for storage in own if storage is not None))
        return output


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedArchitecture(Architecture):
    """A tree whose layers run what was recorded of transformers' own code."""

    recorded: RecordedModel
    unread_names: frozenset[str] = frozenset()
    """Names of trainable tensors that no training pass reads, and of their adapters."""
    idle_layers: tuple[Weight, ...] = ()
    """Tensors of a tower's layers among those."""
    outer_layers: tuple[OuterLayer, ...] = ()
    """Layers beside the stack that a step runs, as those of an encoder."""
    shares_gradients: bool = False
    """Whether layers hand gradients to one tensor beside their input, as an encoder's output."""
    divides_prologue: bool = True
    """Whether those layers are told apart in every training pass."""

    def __reduce__(self) -> tuple[Callable[..., Architecture], tuple[object, ...]]:
        """Pickle the recording that the tree is built of."""
        return _rebuild, (self.recorded, self.quantization, self.gguf, self.unpacked)

    @property
    def tower_layer_weights(self) -> tuple[Weight, ...]:
        """Tensors of the layers of a tower or encoder."""
        outer = (weight for layer in self.outer_layers for weight in layer.weights())
        return (*self.idle_layers, *outer)

    @property
    def head_unit_weights(self) -> tuple[Weight, ...]:
        """Tensors after the layers, a unit of their own."""
        return () if self.tied else (*self.last_weights, *self.list_head_weights())

    @property
    def last_weights(self) -> tuple[Weight, ...]:
        """Tensors after the layers, other than those of the output layer."""
        names = {
            gradient.parameter
            for part in self.recorded.passes.values()
            for instruction in flatten(part.epilogue)
            if isinstance(instruction, Operation)
            for node in instruction.nodes
            for gradient in node.gradients
        }
        return tuple(weight for weight in self.stem if weight.name in names)

    def list_recorded_blocks(self) -> tuple[RecordedBlock, ...]:
        """Return the kinds of layers."""
        return tuple(block for block, _ in self.blocks if isinstance(block, RecordedBlock))

    def describe(self) -> dict[str, object]:
        """Return the specification, and which recording it is."""
        recorded = self.recorded
        layers = [
            {
                "count": recorded.order.count(kind),
                "parameters": sum(weight.numel for weight in layer.weights),
                "linear_layers": len(layer.linears),
                "operators": {
                    name: len(part.blocks[kind].instructions)
                    for name, part in recorded.passes.items()
                },
            }
            for kind, layer in enumerate(recorded.layers)
        ]
        return Architecture.describe(self) | {
            "recording": {
                "digest": recorded.digest,
                "model_class": recorded.model_class,
                "transformers": recorded.transformers,
                "torch": recorded.torch,
                "layers": layers,
                **({"difference": recorded.difference} if recorded.difference else {}),
            }
        }


def _refuse_loss(ctx: Recording, logits: Value) -> Value:  # noqa: ARG001 - one of the tree's functions
    """Refuse a loss on logits that only the model's own changes."""
    message = "a loss other than the model's own, which changes its logits first"
    raise NotModelledError(message, field="workload.loss", modelled=["full_logits"])


def build_recorded(recorded: RecordedModel) -> RecordedArchitecture:
    """Return the tree of a recorded model."""
    recorded = complete_recording(recorded)
    order, unread = recorded.order, list_unread(recorded)
    outer_layers = list_outer_layers(recorded, unread)
    outer = {weight.name: weight for weight in recorded.outer_weights}
    embedding = outer.pop(recorded.embedding, Weight("", "embedding", (0, 0)))
    head = outer.pop(f"{recorded.head}.weight", embedding)
    bias = outer.pop(f"{recorded.head}.bias", None)
    blocks = tuple(
        (RecordedBlock(kind=kind, layer=layer, spec=recorded.spec), order.count(kind))
        for kind, layer in enumerate(recorded.layers)
    )
    return RecordedArchitecture(
        spec=recorded.spec,
        embedding=embedding,
        position_embedding=None,
        blocks=blocks,
        order=order if len(blocks) > 1 else (),
        final_norm=None,
        stem=tuple(outer.values()),
        head=Linear(
            name=recorded.head,
            kind="head",
            in_features=head.shape[1],
            out_features=head.shape[0] if recorded.head else 0,
            bias=bias is not None,
        ),
        outer_linears=recorded.outer_linears,
        buffer_bytes=recorded.buffer_bytes,
        buffer_elements=recorded.buffer_elements,
        rotary_tables=(recorded.rotary_elements,) * 2 if recorded.rotary_elements else (),
        finish_logits=None if recorded.has_plain_loss and recorded.reads is None else _refuse_loss,
        shifts_labels=recorded.reads is None and not recorded.has_one_pass,
        chunked=recorded.depends_on_length,
        batch_dependent=recorded.depends_on_batch,
        walker=WALKER,
        unread_names=unread,
        idle_layers=list_idle_layers(recorded, unread),
        outer_layers=outer_layers,
        shares_gradients=any(map(shares_gradients, recorded.passes.values())),
        divides_prologue=divides_steps(recorded, outer_layers),
        recorded=recorded,
    )


def _rebuild(
    recorded: RecordedModel,
    quantization: Scheme | None,
    gguf: GgufBytes | None,
    unpacked: UnpackedWeights | None,
) -> RecordedArchitecture:
    return replace(
        build_recorded(recorded), quantization=quantization, gguf=gguf, unpacked=unpacked
    )
