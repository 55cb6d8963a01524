"""The config.json that a GGUF file's metadata stand for.

Keys are those of gguf 0.19.0 (``constants.py``, ``Keys``), what converters write into them of
llama.cpp's ``conversion/``, and the names on the other side transformers 5.23's. What a converter
does not write (biases, norms of heads, a tied head) is read from the tensors themselves.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.formats.checkpoints.gguf_document import GgufModel
from service.formats.checkpoints.gguf_fields import GgufFields
from service.formats.checkpoints.gguf_sums import sum_tensors
from service.formats.checkpoints.gguf_switches import (
    LEFT_OUT,
    Config,
    read_biases,
    read_deepseek,
    read_falcon,
    read_glm,
    read_glm_moe,
    read_llama,
    read_mamba,
    read_mamba2,
    read_neox,
    read_olmo2,
    read_phi3,
    read_rotation,
    read_stablelm,
    read_starcoder2,
)

_COMMON: Mapping[str, str] = MappingProxyType(
    {
        "context_length": "max_position_embeddings",
        "block_count": "num_hidden_layers",
        "embedding_length": "hidden_size",
        "feed_forward_length": "intermediate_size",
        "attention.head_count": "num_attention_heads",
        "attention.head_count_kv": "num_key_value_heads",
        "attention.key_length": "head_dim",
        "expert_used_count": "num_experts_per_tok",
        "expert_feed_forward_length": "moe_intermediate_size",
    }
)
_GPT2 = {
    "context_length": "n_positions",
    "block_count": "n_layer",
    "embedding_length": "n_embd",
    "feed_forward_length": "n_inner",
    "attention.head_count": "n_head",
}
_EXPERTS, _LOCAL_EXPERTS, _ROUTED = (
    {"expert_count": name} for name in ("num_experts", "num_local_experts", "n_routed_experts")
)
_WINDOW = {"attention.sliding_window": "sliding_window"}
_SHARED = {
    "expert_shared_count": "n_shared_experts",
    "leading_dense_block_count": "first_k_dense_replace",
    "expert_group_count": "n_group",
    "expert_group_used_count": "topk_group",
}


def _read_nothing(_file: GgufFields) -> Config:
    return {}


@dataclass(frozen=True, slots=True)
class _Family:
    """A ``model_type`` and its fields beside the common ones.

    ``read`` adds what the tensors say.
    """

    model_type: str
    fields: Mapping[str, str] = field(default_factory=dict)
    read: Callable[[GgufFields], Config] = _read_nothing
    common: bool = True


def read_gguf_config(model: GgufModel) -> Config:
    """Return the config of a model.

    Raises NotModelledError for an architecture that no family stands for, with the file's bytes.
    """
    name = model.metadata.get("general.architecture")
    family = _FAMILIES.get(name) if isinstance(name, str) else None
    if family is None:
        raise _refuse_architecture(model, name)
    file = GgufFields(model, str(name))
    names = {**(_COMMON if family.common else {}), **family.fields}
    config: Config = {"model_type": family.model_type}
    config |= {
        field_name: value
        for key, field_name in names.items()
        if (value := file.get(key)) is not None
    }
    config |= {"tie_word_embeddings": not file.has("output.weight"), "dtype": "float16"}
    config |= {"vocab_size": file.vocab_size} | file.read_windows()
    return {key: value for key, value in (config | family.read(file)).items() if value != LEFT_OUT}


def _refuse_architecture(model: GgufModel, name: object) -> InvalidInputError | NotModelledError:
    sums = sum_tensors(model)
    types = ", ".join(f"{kind} {size:,}" for kind, size in sorted(sums.by_type.items()))
    size = f"{sums.total_bytes:,} bytes in {sums.num_tensors} tensors ({types})"
    if name == "clip":
        message = f"a projector file of {size}, which --mmproj loads: name the model's own file"
        return InvalidInputError(message, field="metadata.general.architecture")
    what = f"a GGUF file with general.architecture {name!r}; it holds {size}"
    return NotModelledError(what, field="metadata.general.architecture", modelled=list(_FAMILIES))


_SSM = {
    "ssm.conv_kernel": "conv_kernel",
    "ssm.state_size": "state_size",
    "block_count": "num_hidden_layers",
    "embedding_length": "hidden_size",
}
_FAMILIES: Mapping[str, _Family] = MappingProxyType(
    {
        "arcee": _Family("arcee"),
        "bloom": _Family(
            "bloom",
            {"block_count": "n_layer", "embedding_length": "hidden_size"}
            | {"attention.head_count": "n_head"},
            lambda _file: {"tie_word_embeddings": True},
            common=False,
        ),
        "cohere2": _Family("cohere2", _WINDOW),
        "command-r": _Family(
            "cohere", read=lambda file: {"use_qk_norm": file.has("attn_q_norm.weight")}
        ),
        "deepseek2": _Family("deepseek_v2", _SHARED, read_deepseek),
        "exaone4": _Family("exaone4", _WINDOW),
        "falcon": _Family("falcon", read=read_falcon),
        "gemma": _Family("gemma"),
        "gemma2": _Family("gemma2", _WINDOW),
        "gemma3": _Family("gemma3_text", _WINDOW),
        "glm4": _Family("glm4", read=read_glm),
        "glm4moe": _Family("glm4_moe", _SHARED | _ROUTED, read_glm_moe),
        "gpt-oss": _Family("gpt_oss", _WINDOW | _LOCAL_EXPERTS),
        "gpt2": _Family("gpt2", _GPT2, common=False),
        "gptneox": _Family("gpt_neox", read=read_neox),
        "granite": _Family("granite"),
        "granitemoe": _Family("granitemoe", _LOCAL_EXPERTS),
        "llama": _Family("llama", read=read_llama),
        "llama4": _Family(
            "llama4_text",
            _LOCAL_EXPERTS
            | {
                "feed_forward_length": "intermediate_size_mlp",
                "expert_feed_forward_length": "intermediate_size",
                "interleave_moe_layer_step": "interleave_moe_layer_step",
                "attention.chunk_size": "attention_chunk_size",
            },
        ),
        "mamba": _Family(
            "mamba", _SSM | {"ssm.time_step_rank": "time_step_rank"}, read_mamba, common=False
        ),
        "mamba2": _Family("mamba2", _SSM | {"ssm.group_count": "n_groups"}, read_mamba2),
        "mistral3": _Family("mistral", read=lambda _file: {"sliding_window": None}),
        "mpt": _Family(
            "mpt",
            {"block_count": "n_layers", "embedding_length": "d_model"}
            | {"attention.head_count": "n_heads", "context_length": "max_seq_len"},
            common=False,
        ),
        "nemotron": _Family("nemotron", read=read_rotation),
        "olmo": _Family("olmo"),
        "olmo2": _Family("olmo2", _WINDOW, read_olmo2),
        "olmoe": _Family("olmoe", _EXPERTS),
        "phi2": _Family("phi", read=read_rotation),
        "phi3": _Family("phi3", read=read_phi3),
        "phimoe": _Family("phimoe", _LOCAL_EXPERTS, lambda _file: {"sliding_window": None}),
        "qwen2": _Family("qwen2"),
        "qwen2moe": _Family(
            "qwen2_moe",
            _EXPERTS | {"expert_shared_feed_forward_length": "shared_expert_intermediate_size"},
        ),
        "qwen2vl": _Family("qwen2"),
        "qwen3": _Family("qwen3"),
        "qwen3moe": _Family("qwen3_moe", _EXPERTS),
        "qwen3vl": _Family("qwen3"),
        "qwen3vlmoe": _Family("qwen3_moe", _EXPERTS),
        "seed_oss": _Family("seed_oss", read=read_biases),
        "smollm3": _Family("smollm3"),
        "stablelm": _Family("stablelm", read=read_stablelm),
        "starcoder": _Family(
            "gpt_bigcode",
            _GPT2,
            lambda file: {"multi_query": file.get("attention.head_count_kv") == 1},
            common=False,
        ),
        "starcoder2": _Family("starcoder2", read=read_starcoder2),
    }
)
"""``general.architecture`` by llama.cpp (gguf 0.19.0, ``MODEL_ARCH_NAMES``) and its family here."""
