"""Switches of families that a GGUF file's tensors and keys say together."""

from service.formats.checkpoints.gguf_fields import GgufFields

Config = dict[str, object]
LEFT_OUT = "left out"
"""A field of the file that means something else in the config."""


def read_llama(file: GgufFields) -> Config:
    """Return the experts or the biases of a llama."""
    if file.get("expert_count"):
        experts = {"num_local_experts": file.require("expert_count"), "sliding_window": None}
        return {"model_type": "mixtral", **experts}
    return {"attention_bias": file.has("attn_q.bias"), "mlp_bias": file.has("ffn_up.bias")}


def read_deepseek(file: GgufFields) -> Config:
    """Return a DeepSeek, whose keys are one head in the file.

    Files from before llama.cpp's MLA have the lengths of all heads as ``key_length``.
    """
    rotated = file.require("rope.dimension_count")
    key = file.get("attention.key_length_mla") or file.require("attention.key_length")
    routed = file.require("expert_count")
    chosen_by_sigmoid = file.get("expert_gating_func") == 2 or file.has("exp_probs_b")  # noqa: PLR2004 - gguf's ExpertGatingFuncType.SIGMOID
    return {
        "model_type": "deepseek_v3" if chosen_by_sigmoid else "deepseek_v2",
        "n_routed_experts": routed,
        "q_lora_rank": file.get("attention.q_lora_rank"),
        "kv_lora_rank": file.require("attention.kv_lora_rank"),
        "qk_rope_head_dim": rotated,
        "qk_nope_head_dim": key - rotated,
        "v_head_dim": file.get("attention.value_length_mla")
        or file.require("attention.value_length"),
        "num_key_value_heads": file.require("attention.head_count"),
        "head_dim": LEFT_OUT,
    }


def read_falcon(file: GgufFields) -> Config:
    """Return the layout of a Falcon."""
    heads, norms = file.get("attention.head_count_kv") or 1, 1 + file.has("attn_norm_2.weight")
    new = heads > 1 or norms > 1
    return {
        "new_decoder_architecture": new,
        "num_kv_heads": heads,
        "num_ln_in_parallel_attn": norms,
        "ffn_hidden_size": file.get("feed_forward_length"),
        "tie_word_embeddings": True,
        "num_key_value_heads": LEFT_OUT,
    }


def read_glm_moe(file: GgufFields) -> Config:
    """Return a GLM-4.5.

    Its last layer predicts further tokens and is not loaded.
    """
    return {
        **read_rotation(file),
        "num_hidden_layers": file.require("block_count") - (file.get("nextn_predict_layers") or 0),
        "use_qk_norm": file.has("attn_q_norm.weight"),
        "attention_bias": file.has("attn_q.bias"),
    }


def read_rotation(file: GgufFields) -> Config:
    """Return the part of a head that is rotated."""
    rotated, dim = file.get("rope.dimension_count"), file.head_dim
    if rotated is None or rotated >= dim:
        return {"partial_rotary_factor": 1.0}
    return {"partial_rotary_factor": rotated / dim}


def read_glm(file: GgufFields) -> Config:
    """Return the rotation and the biases of a GLM-4."""
    return {**read_rotation(file), "attention_bias": file.has("attn_q.bias")}


def read_starcoder2(file: GgufFields) -> Config:
    """Return a StarCoder 2, which has no window there."""
    return {"use_bias": file.has("attn_q.bias"), "sliding_window": None}


def read_phi3(file: GgufFields) -> Config:
    """Return a Phi-3 without its window."""
    # llama.cpp reads the window and leaves it off (llama-model.cpp, LLM_ARCH_PHI3).
    return {**read_rotation(file), "sliding_window": None}


def read_neox(file: GgufFields) -> Config:
    """Return the residual and the rotation of a GPT-NeoX."""
    return {
        "rotary_pct": read_rotation(file)["partial_rotary_factor"],
        "use_parallel_residual": file.metadata.get("gptneox.use_parallel_residual", True),
        "head_dim": LEFT_OUT,
    }


def read_stablelm(file: GgufFields) -> Config:
    """Return the switches of a StableLM."""
    return {
        **read_rotation(file),
        "use_qkv_bias": file.has("attn_q.bias"),
        "use_parallel_residual": not file.has("ffn_norm.weight"),
        "qk_layernorm": file.has("attn_q_norm.weight"),
    }


def read_olmo2(file: GgufFields) -> Config:
    """Return an OLMo 3 where there are windows."""
    return {"model_type": "olmo3"} if file.get("attention.sliding_window") else {}


def read_biases(file: GgufFields) -> Config:
    """Return the biases of attention."""
    return {
        "attention_bias": file.has("attn_q.bias"),
        "attention_out_bias": file.has("attn_output.bias"),
    }


def read_mamba(file: GgufFields) -> Config:
    """Return the expansion of a Mamba."""
    return {"expand": file.require("ssm.inner_size") // file.require("embedding_length")}


def read_mamba2(file: GgufFields) -> Config:
    """Return the heads of a Mamba 2."""
    heads, inner = file.require("ssm.time_step_rank"), file.require("ssm.inner_size")
    sizes = {"num_heads": heads, "head_dim": inner // heads, "intermediate_size": LEFT_OUT}
    return {**read_mamba(file), **sizes}
