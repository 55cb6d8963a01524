"""Recordings as JSON values.

Sizes are numbered, since few of them differ.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from hashlib import sha256
from json import dumps

from service.estimator.model.recorded.recorded_model import (
    CacheParts,
    RecordedLayer,
    RecordedModel,
)
from service.estimator.model.weights.tensors import Linear, Weight
from service.estimator.tape.programs.program import (
    CacheUpdate,
    Embedded,
    GraphNode,
    Instruction,
    Leaf,
    LinearCall,
    Loop,
    Program,
    Release,
    ValueSpec,
)
from service.estimator.tape.programs.recorded_pass import WHOLE, Domain, RecordedPass
from service.estimator.tape.programs.stepped_sizes import AnySize

FORMAT = 4
"""Version of the document; a reader refuses those that it does not know.

With 3 came passes over weights in 16 bits under autocast, with 4 those over such weights beside
buffers in fp32.
"""
READ_FORMATS = (2, 3, FORMAT)
SPEC_FIELDS = (
    "family",
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "intermediate_size",
    "activation",
    "tie_word_embeddings",
    "max_position_embeddings",
)
"""Numbers of a model that a recording names."""
_EXPERT_FIELDS = ("num_experts", "num_experts_per_token")
"""Those of them that only models with experts have."""


@dataclass(slots=True)
class _Writer:
    sizes: dict[AnySize, int] = field(default_factory=dict)

    def size(self, size: AnySize) -> int:
        return self.sizes.setdefault(size, len(self.sizes))

    def values(self, values: Sequence[ValueSpec]) -> list[object]:
        return [
            [self.size(spec.numel), spec.dtype and spec.dtype.value, spec.storage]
            for spec in values
        ]

    def instructions(self, instructions: Sequence[Instruction]) -> list[object]:
        return [self.instruction(instruction) for instruction in instructions]

    def instruction(self, instruction: Instruction) -> list[object]:
        if isinstance(instruction, Release):
            return ["release", instruction.storage]
        if isinstance(instruction, CacheUpdate):
            joined = list(instruction.joined)
            return ["cache", list(instruction.parts), joined, instruction.window]
        if isinstance(instruction, Embedded | Leaf):
            kind = "embedded" if isinstance(instruction, Embedded) else "leaf"
            return [kind, instruction.value]
        if isinstance(instruction, Loop):
            return [
                "loop",
                self.size(instruction.turns),
                [list(pair) for pair in instruction.values],
                [list(pair) for pair in instruction.storages],
                list(instruction.produced),
                self.instructions(instruction.instructions),
            ]
        if isinstance(instruction, LinearCall):
            return ["linear", instruction.layer, instruction.x, instruction.output]
        return [
            "operation",
            instruction.operator,
            [[allocated.storage, self.size(allocated.size)] for allocated in instruction.allocated],
            [self.size(size) for size in instruction.scratch],
            [self.node(node) for node in instruction.nodes],
            *(() if instruction.moved is None else (self.size(instruction.moved),)),
        ]

    def node(self, node: GraphNode) -> list[object]:
        return [
            node.name,
            list(node.outputs),
            list(node.saved_before),
            list(node.saved_after),
            [[event.action.value, event.index, self.size(event.size)] for event in node.events],
            [
                [part.value, part.parameter, part.source.value, part.index, part.is_view]
                for part in node.gradients
            ],
        ]

    def program(self, program: Program) -> dict[str, object]:
        return {
            "values": self.values(program.values),
            "num_storages": program.num_storages,
            "inputs": program.inputs,
            "instructions": self.instructions(program.instructions),
            "output": program.output,
        }

    def recorded_pass(self, part: RecordedPass) -> dict[str, object]:
        return {
            "values": self.values(part.values),
            "num_storages": part.num_storages,
            "inputs": list(part.inputs),
            "prologue": self.instructions(part.prologue),
            "x": part.x,
            "holds_x": part.holds_x,
            "layer_args": list(part.layer_args),
            "blocks": [self.program(block) for block in part.blocks],
            "block_inputs": [list(inputs) for inputs in part.block_inputs],
            "output": part.output,
            "epilogue": self.instructions(part.epilogue),
            "hidden": part.hidden,
            "tail": self.instructions(part.tail),
            "loss": part.loss,
            "returned": list(part.returned),
            **({} if part.domain == WHOLE else {"domain": _write_domain(part.domain)}),
        }


def encode_recording(recorded: RecordedModel) -> dict[str, object]:
    """Return a recording as JSON values."""
    writer = _Writer()
    passes = {name: writer.recorded_pass(part) for name, part in recorded.passes.items()}
    spec = recorded.spec
    return {
        "format": FORMAT,
        "model_type": recorded.model_type,
        "model_class": recorded.model_class,
        "transformers": recorded.transformers,
        "torch": recorded.torch,
        "spec": {name: getattr(spec, name) for name in SPEC_FIELDS}
        | {name: getattr(spec, name) for name in _EXPERT_FIELDS if getattr(spec, name)},
        "layers": [_write_layer(layer) for layer in recorded.layers],
        "order": list(recorded.order),
        "outer_weights": [_write_weight(weight) for weight in recorded.outer_weights],
        "outer_linears": [_write_linear(linear) for linear in recorded.outer_linears],
        "embedding": recorded.embedding,
        "head": recorded.head,
        "buffer_bytes": recorded.buffer_bytes,
        "rotary_elements": recorded.rotary_elements,
        **({"difference": recorded.difference} if recorded.difference else {}),
        **({"buffer_elements": recorded.buffer_elements} if recorded.buffer_elements else {}),
        **({"outer_plan": dict(recorded.outer_plan)} if recorded.outer_plan else {}),
        **({} if recorded.reads is None else {"reads": asdict(recorded.reads)}),
        "sizes": [_write_size(size) for size in writer.sizes],
        "passes": passes,
    }


def _write_size(size: AnySize) -> list[object]:
    if isinstance(size, tuple):
        return list(size)
    return [*size.plain, size.tokens, size.begun, *size.steps]


def _write_domain(domain: Domain) -> list[object]:
    return [getattr(domain, item.name) for item in fields(domain)]


def _write_layer(layer: RecordedLayer) -> dict[str, object]:
    plan = {"plan": dict(layer.plan)} if layer.plan else {}
    cache = {"cache": _write_cache(layer.cache)} if layer.cache is not None else {}
    return {
        "weights": [_write_weight(weight) for weight in layer.weights],
        "linears": [_write_linear(linear) for linear in layer.linears],
        "cache_elements": layer.cache_elements,
        "cache_window": layer.cache_window,
        **plan,
        **cache,
    }


def _write_cache(cache: CacheParts) -> dict[str, object]:
    return {
        "caches": [
            [part.num_heads, part.key_size, part.value_size, part.index_size]
            for part in cache.caches
        ],
        "window": cache.window,
        "states": [[list(state.convolution), list(state.recurrent)] for state in cache.states],
        "other": cache.other,
    }


def _write_weight(weight: Weight) -> list[object]:
    return [weight.name, weight.kind, list(weight.shape)]


def _write_linear(layer: Linear) -> list[object]:
    return [layer.name, layer.kind, layer.in_features, layer.out_features, layer.bias]


def serialize_document(document: Mapping[str, object]) -> bytes:
    """Return a document as JSON, the same bytes for the same content."""
    return dumps(document, sort_keys=True, separators=(",", ":")).encode()


def compute_digest(document: Mapping[str, object]) -> str:
    """Return the SHA-256 of a recording's document."""
    return sha256(serialize_document(document)).hexdigest()
