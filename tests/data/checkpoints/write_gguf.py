"""Writes the GGUF files of this folder with the ``gguf`` package.

``python -m tests.data.checkpoints.write_gguf`` where gguf 0.19.0, transformers and torch are
installed. Tensors are those of transformers' own models of small configs, by the names that gguf
maps them to; metadata are the keys that llama.cpp's converters write. Of models the header alone is
kept; ``types.gguf`` and the parts of ``split`` have their data.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import gguf
import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from tests.tiny_models import tiny_config

FOLDER = Path(__file__).parent / "gguf"
ARCHITECTURES = {
    "arcee": "arcee",
    "bloom": "bloom",
    "cohere": "command-r",
    "cohere2": "cohere2",
    "deepseek_v2": "deepseek2",
    "deepseek_v3": "deepseek2",
    "exaone4": "exaone4",
    "falcon": "falcon",
    "gemma": "gemma",
    "gemma2": "gemma2",
    "gemma3_text": "gemma3",
    "glm4": "glm4",
    "glm4_moe": "glm4moe",
    "gpt2": "gpt2",
    "gpt_bigcode": "starcoder",
    "gpt_neox": "gptneox",
    "gpt_oss": "gpt-oss",
    "granite": "granite",
    "granitemoe": "granitemoe",
    "llama": "llama",
    "mistral": "llama",
    "mixtral": "llama",
    "mpt": "mpt",
    "nemotron": "nemotron",
    "olmo": "olmo",
    "olmo2": "olmo2",
    "olmoe": "olmoe",
    "phi": "phi2",
    "phi3": "phi3",
    "phimoe": "phimoe",
    "qwen2": "qwen2",
    "qwen2_moe": "qwen2moe",
    "qwen3": "qwen3",
    "qwen3_moe": "qwen3moe",
    "seed_oss": "seed_oss",
    "smollm3": "smollm3",
    "stablelm": "stablelm",
    "starcoder2": "starcoder2",
}
TYPES = ("Q8_0", "Q4_0", "F16", "Q5_1", "IQ4_NL", "MXFP4", "BF16")
"""What matrices get in turn, where blocks of 32 divide their rows."""
_RENAMED = {
    "transformer.word_embeddings_layernorm": "word_embeddings_layernorm",
    "block_sparse_moe.experts": "mlp.experts",
    "block_sparse_moe.router.weight": "block_sparse_moe.router.layer.weight",
}
_OWN_WIDTH = ("deepseek_v2", "deepseek_v3", "glm4_moe", "qwen2_moe", "qwen3_moe")
"""Whose experts have another width than a dense layer."""
_UNTIED = ("falcon", "bloom")
"""Whose converters write the head although it is tied."""


def main() -> None:
    """Write every file, and what they hold into ``expected.json``."""
    FOLDER.mkdir(exist_ok=True)
    expected = {name: write_model(name, ARCHITECTURES[name]) for name in ARCHITECTURES}
    expected["types"] = write_types()
    expected["split"] = write_split()
    text = json.dumps(expected, indent=1, sort_keys=True)
    (FOLDER / "expected.json").write_text(text + "\n")
    sys.stdout.write(f"{len(expected)} models\n")


def write_model(model_type: str, architecture: str) -> dict[str, Any]:
    """Write the header of a small model; return its sums."""
    words: dict[str, Any] = {**tiny_config(model_type)}
    config, auto = AutoConfig.for_model(**words), cast("Any", AutoModelForCausalLM)
    with torch.device("meta"):
        model = auto.from_config(config)
    tensors = dict(_iter_tensors(model, config, architecture))
    writer = gguf.GGUFWriter(FOLDER / f"{model_type}.gguf", architecture)
    for key, value in _read_keys(config, model_type, tensors).items():
        add = writer.add_array if isinstance(value, list) else writer.add_uint32
        if isinstance(value, bool):
            writer.add_bool(f"{architecture}.{key}", value)
        else:
            add(f"{architecture}.{key}", value)
    writer.add_token_list([f"token {index}" for index in range(3)])
    total = 0
    for index, (name, shape) in enumerate(tensors.items()):
        kind = _select_type(index, shape)
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        num_bytes = int(np.prod(shape)) // elements * size
        total += num_bytes
        raw = gguf.quant_shape_to_byte_shape(shape, kind)
        writer.add_tensor_info(name, raw, np.dtype(np.uint8), num_bytes, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    num_elements = sum(int(np.prod(shape)) for shape in tensors.values())
    return {
        "architecture": architecture,
        "bytes": total,
        "elements": num_elements,
        "parameters": model.num_parameters(),
        "tensors": len(tensors),
    }


def write_types() -> dict[str, Any]:
    """Write one tensor of each type, with its data."""
    writer = gguf.GGUFWriter(FOLDER / "types.gguf", "llama")
    total = 0
    for index, kind in enumerate(gguf.GGMLQuantizationType):
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        data = np.zeros((index + 1, 256 // elements * size), dtype=np.uint8)
        writer.add_tensor(f"tensor_{kind.name}", data, raw_dtype=kind)
        total += data.nbytes
    _finish(writer)
    sizes = {kind.name: gguf.GGML_QUANT_SIZES[kind] for kind in gguf.GGMLQuantizationType}
    return {"bytes": total, "types": sizes}


def write_split() -> dict[str, Any]:
    """Write a model in three parts, with its data."""
    writer = gguf.GGUFWriter(FOLDER / "split.gguf", "llama", split_max_tensors=2)
    shapes = [("token_embd", 8), ("output_norm", 1), *((f"blk.{i}.attn_q", 2) for i in range(3))]
    total = 0
    for name, rows in shapes:
        data = np.zeros((rows, 64), dtype=np.float16)
        writer.add_tensor(f"{name}.weight", data)
        total += data.nbytes
    _finish(writer)
    return {"bytes": total, "tensors": len(shapes)}


def _finish(writer: Any) -> None:  # noqa: ANN401 - the package has no types
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _select_type(index: int, shape: tuple[int, ...]) -> Any:  # noqa: ANN401 - the package has no types
    kind = TYPES[index % len(TYPES)] if shape[-1] % 32 == 0 else "F16"
    return gguf.GGMLQuantizationType[kind if len(shape) > 1 else "F32"]


def _iter_tensors(
    model: Any,  # noqa: ANN401 - any of transformers' models
    config: Any,  # noqa: ANN401
    architecture: str,
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the tensors of a model as a converter writes them."""
    number = next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture)
    names = gguf.get_tensor_name_map(number, config.num_hidden_layers)
    tied = config.get_text_config().tie_word_embeddings and config.model_type not in _UNTIED
    parameters = dict(model.named_parameters(remove_duplicate=False))
    for name, value in parameters.items():
        if tied and name == "lm_head.weight":
            continue
        for part, shape in _split_tensor(name, tuple(value.shape), config, architecture):
            if architecture == "bloom":
                part = part.removeprefix("transformer.")  # noqa: PLW2901 - as its converter does
            for old, new in _RENAMED.items():
                part = part.replace(old, new)  # noqa: PLW2901 - by the converter's own names
            mapped = names.get_name(part, try_suffixes=(".weight", ".bias"))
            assert mapped is not None, part
            yield mapped, shape


def _split_tensor(
    name: str,
    shape: tuple[int, ...],
    config: Any,  # noqa: ANN401
    architecture: str,
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the matrices of a stack of experts one by one, and latent heads in halves."""
    prefix, _, tail = name.rpartition(".")
    if tail.startswith("gate_up_proj") and len(shape) > 1 and "experts" in prefix:
        bias = tail.removeprefix("gate_up_proj").replace("_", ".")
        inner = _get_inner_size(config)
        columns = () if bias else (config.hidden_size,)
        for part in ("gate_proj", "up_proj"):
            yield f"{prefix}.{part}{bias or '.weight'}", (shape[0], inner, *columns)
    elif tail.startswith("down_proj") and "experts" in prefix and "shared" not in prefix:
        bias = tail.removeprefix("down_proj").replace("_", ".")
        sizes = shape if bias else (shape[0], config.hidden_size, _get_inner_size(config))
        yield f"{prefix}.down_proj{bias or '.weight'}", sizes
    elif tail == "weight" and prefix.endswith("kv_b_proj") and architecture == "deepseek2":
        heads, latent = config.num_attention_heads, config.kv_lora_rank
        stem = prefix.removesuffix("kv_b_proj")
        yield f"{stem}k_b_proj.weight", (heads, latent, config.qk_nope_head_dim)
        yield f"{stem}v_b_proj.weight", (heads, config.v_head_dim, latent)
    elif architecture == "gpt2" and len(shape) > 1 and ".h." in name:
        yield name, (shape[1], shape[0])
    else:
        yield name, shape


def _get_inner_size(config: Any) -> int:  # noqa: ANN401
    own = config.model_type in _OWN_WIDTH
    return int(config.moe_intermediate_size if own else config.intermediate_size)


def _read_keys(
    config: Any,  # noqa: ANN401
    model_type: str,
    tensors: Mapping[str, tuple[int, ...]],
) -> dict[str, Any]:
    """Return the metadata that converters write of a config."""
    heads = config.num_attention_heads
    dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    width = next((s for n, s in tensors.items() if n.endswith("ffn_down.weight")), (0, 0))[-1]
    keys: dict[str, Any] = {
        "block_count": config.num_hidden_layers,
        "context_length": getattr(config, "max_position_embeddings", 2048),
        "embedding_length": config.hidden_size,
        "attention.head_count": heads,
    }
    width = width or getattr(config, "intermediate_size", 0)
    keys |= {"feed_forward_length": [width] * 3 if model_type == "olmo" else width}
    kv_heads = getattr(config, "num_key_value_heads", None) or heads
    if model_type in {"falcon", "gpt_bigcode"}:
        kv_heads = 1
    keys |= {"attention.head_count_kv": kv_heads} if model_type != "gpt2" else {}
    if getattr(config, "head_dim", None):
        keys |= {"attention.key_length": dim, "attention.value_length": dim}
    rope = getattr(config, "rope_parameters", None) or {}
    part = rope.get("partial_rotary_factor") or getattr(config, "rotary_pct", 1.0)
    keys["rope.dimension_count"] = int(dim * part)
    if getattr(config, "sliding_window", None) and model_type != "mistral":
        keys["attention.sliding_window"] = config.sliding_window
        if model_type in {"exaone4", "gemma3_text"}:
            kinds = [kind == "sliding_attention" for kind in config.layer_types]
            keys["attention.sliding_window_pattern"] = kinds
    if model_type == "gpt_neox":
        keys["use_parallel_residual"] = bool(config.use_parallel_residual)
    return keys | _read_expert_keys(config, model_type)


def _read_expert_keys(config: Any, model_type: str) -> dict[str, Any]:  # noqa: ANN401
    routed = next(
        (
            getattr(config, name)
            for name in ("n_routed_experts", "num_local_experts", "num_experts")
            if getattr(config, name, None)
        ),
        0,
    )
    if not routed:
        return {}
    keys = {
        "expert_count": routed,
        "expert_used_count": config.num_experts_per_tok,
        "expert_feed_forward_length": _get_inner_size(config),
    }
    if model_type in {"deepseek_v2", "deepseek_v3", "glm4_moe"}:
        keys |= {
            "expert_shared_count": config.n_shared_experts,
            "leading_dense_block_count": config.first_k_dense_replace,
            "expert_group_count": config.n_group,
            "expert_group_used_count": config.topk_group,
        }
    if model_type == "qwen2_moe":
        keys["expert_shared_feed_forward_length"] = config.shared_expert_intermediate_size
    if model_type.startswith("deepseek"):
        latent, rotated = config.kv_lora_rank, config.qk_rope_head_dim
        keys |= {
            "attention.q_lora_rank": config.q_lora_rank,
            "attention.kv_lora_rank": latent,
            "attention.head_count_kv": 1,
            "attention.key_length": latent + rotated,
            "attention.value_length": latent,
            "attention.key_length_mla": config.qk_nope_head_dim + rotated,
            "attention.value_length_mla": config.v_head_dim,
            "rope.dimension_count": rotated,
            "expert_gating_func": 2 if model_type == "deepseek_v3" else 1,
        }
    return keys


if __name__ == "__main__":
    main()
