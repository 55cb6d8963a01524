"""Sums over the tensors of a GGUF file."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from service.estimator.model.weights.gguf_bytes import GgufBytes, LayerBytes
from service.formats.checkpoints.gguf_document import GgufModel
from service.formats.checkpoints.gguf_header import GgufTensor

_LAYER = re.compile(r"blk\.([0-9]{1,4})\.")
_EXPERTS = re.compile(r"\.ffn_(up|down|gate|gate_up)_(ch|)exps\b")
"""The tensors that ``--n-cpu-moe`` keeps on the host (llama.cpp, ``common/common.h``)."""
_KINDS = (
    ("mlp_experts", re.compile(r"_exps\b|_chexps\b|\.ffn_(up|down|gate)\.[0-9]+\.")),
    ("norm", re.compile(r"norm\b|norm_")),
    ("router", re.compile(r"\.ffn_gate_inp|exp_probs_b")),
    ("mlp", re.compile(r"\.ffn_")),
    ("attention", re.compile(r"\.attn_|\.attn\b")),
    ("mamba", re.compile(r"\.ssm_")),
    ("embedding", re.compile(r"^(token_embd|position_embd|token_types)\.")),
    ("lm_head", re.compile(r"^output\.")),
)
"""Kinds of tensors by their names, the first that fits (gguf 0.19.0, ``TENSOR_NAMES``)."""
_INPUTS = ("token_embd.", "position_embd.", "token_types.", "token_embd_norm.", "per_layer_token_")
"""What llama.cpp leaves on the host: tensors of the input layer (``LLM_TENSOR_LAYER_INPUT``)."""
OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufSums:
    """Bytes of a file's tensors, without the padding between them."""

    total_bytes: int
    num_tensors: int
    num_elements: int
    by_type: dict[str, int]
    by_kind: dict[str, int]
    by_layer: tuple[int, ...]


def sum_tensors(model: GgufModel) -> GgufSums:
    """Return the sums of all tensors."""
    by_type: Counter[str] = Counter()
    by_kind: Counter[str] = Counter()
    by_layer: Counter[int] = Counter()
    for tensor in model.tensors:
        by_type[tensor.type.value] += tensor.bytes
        by_kind[get_kind(tensor.name)] += tensor.bytes
        layer = get_layer(tensor.name)
        if layer is not None:
            by_layer[layer] += tensor.bytes
    return GgufSums(
        total_bytes=model.total_bytes,
        num_tensors=len(model.tensors),
        num_elements=sum(tensor.num_elements for tensor in model.tensors),
        by_type=dict(sorted(by_type.items())),
        by_kind=dict(sorted(by_kind.items())),
        by_layer=tuple(by_layer[index] for index in range(max(by_layer, default=-1) + 1)),
    )


def place_tensors(model: GgufModel, num_layers: int) -> GgufBytes:
    """Return the bytes that llama.cpp puts where.

    A head that the file leaves out is a second copy of the token table, on the GPU. Layers beyond
    ``num_layers``, which predict further tokens, are not loaded (``TENSOR_SKIP``).
    """
    layers: list[list[GgufTensor]] = [[] for _ in range(num_layers)]
    outer, table, head = [], 0, 0
    for tensor in model.tensors:
        layer = get_layer(tensor.name)
        if layer is not None:
            if layer < num_layers:
                layers[layer].append(tensor)
        elif tensor.name.startswith(_INPUTS):
            table += tensor.bytes
        elif tensor.name.startswith("output."):
            head += tensor.bytes
        else:
            outer.append(tensor)
    if not any(tensor.name == "output.weight" for tensor in model.tensors):
        head += sum(tensor.bytes for tensor in model.tensors if tensor.name == "token_embd.weight")
    return GgufBytes(
        table=table,
        head=head,
        outside=sum(tensor.bytes for tensor in outer),
        by_layer=tuple(_sum_layer(layer) for layer in layers),
        types=tuple(sorted(sum_tensors(model).by_type.items())),
    )


def get_layer(name: str) -> int | None:
    """Return the layer of a tensor; None outside of them."""
    match = _LAYER.match(name)
    return None if match is None else int(match[1])


def get_kind(name: str) -> str:
    """Return the kind of module that a tensor belongs to."""
    return next((kind for kind, pattern in _KINDS if pattern.search(name)), OTHER)


def _sum_layer(tensors: Sequence[GgufTensor]) -> LayerBytes:
    experts = sum(tensor.bytes for tensor in tensors if _EXPERTS.search(tensor.name))
    total = sum(tensor.bytes for tensor in tensors)
    return LayerBytes(
        experts, total - experts, max((tensor.bytes for tensor in tensors), default=0)
    )
