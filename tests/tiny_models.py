"""A small config of every model_type that can be read.

They are wide enough that no number hides behind rounding, and quick to run.
"""

from collections.abc import Mapping

Config = dict[str, object]

_ROTARY: Config = {
    "vocab_size": 1000,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
}
_GROUPED = _ROTARY | {"head_dim": 32}
_GPT: Config = {"vocab_size": 1000, "n_embd": 128, "n_layer": 3, "n_head": 4, "n_positions": 512}
_LEARNED: Config = {
    "vocab_size": 1000,
    "hidden_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 512,
    "max_position_embeddings": 512,
}
_TWO_STACKS: Config = {
    "vocab_size": 1000,
    "d_model": 128,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 256,
    "decoder_ffn_dim": 256,
    "max_position_embeddings": 512,
}
_T5: Config = {
    "vocab_size": 1000,
    "d_model": 128,
    "d_kv": 32,
    "d_ff": 256,
    "num_layers": 2,
    "num_decoder_layers": 3,
    "num_heads": 4,
}
_CLIP_VISION: Config = {
    "model_type": "clip_vision_model",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "image_size": 56,
    "patch_size": 14,
    "projection_dim": 64,
}
_QWEN_TEXT = _ROTARY | {
    "rope_scaling": {"type": "mrope", "rope_type": "default", "mrope_section": [4, 6, 6]}
}
_QWEN_VISION: Config = {
    "depth": 2,
    "num_heads": 4,
    "patch_size": 14,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "in_channels": 3,
}
_EXPERTS: Config = {"num_experts_per_tok": 2, "moe_intermediate_size": 64}
_MAMBA: Config = {
    "vocab_size": 1000,
    "hidden_size": 128,
    "num_hidden_layers": 3,
    "state_size": 16,
    "expand": 2,
    "conv_kernel": 4,
}
_MAMBA2: Config = {
    "mamba_d_state": 16,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_n_heads": 8,
    "mamba_d_head": 32,
    "mamba_n_groups": 1,
}

TINY: Mapping[str, Config] = {
    "arcee": _ROTARY,
    "bamba": _ROTARY | _MAMBA2 | {"attn_layer_indices": [1], "mamba_chunk_size": 16},
    "bart": _TWO_STACKS,
    "bert": _LEARNED,
    "bloom": {"vocab_size": 1000, "hidden_size": 128, "n_layer": 3, "n_head": 4},
    "camembert": _LEARNED,
    "clip": {
        "projection_dim": 64,
        "text_config": _LEARNED
        | {"model_type": "clip_text_model", "max_position_embeddings": 77, "projection_dim": 64},
        "vision_config": _CLIP_VISION,
    },
    "codegen": _GPT | {"rotary_dim": 16},
    "cohere": _ROTARY,
    "cohere2": _GROUPED | {"sliding_window": 256},
    "deepseek_v2": _ROTARY
    | _EXPERTS
    | {
        "num_key_value_heads": 4,
        "kv_lora_rank": 32,
        "q_lora_rank": 48,
        "qk_nope_head_dim": 32,
        "qk_rope_head_dim": 16,
        "v_head_dim": 32,
        "n_routed_experts": 4,
        "n_shared_experts": 1,
        "first_k_dense_replace": 1,
        "n_group": 1,
        "topk_group": 1,
        "topk_method": "greedy",
    },
    "deepseek_v3": _ROTARY
    | _EXPERTS
    | {
        "num_key_value_heads": 4,
        "kv_lora_rank": 32,
        "q_lora_rank": 48,
        "qk_nope_head_dim": 32,
        "qk_rope_head_dim": 16,
        "v_head_dim": 32,
        "n_routed_experts": 4,
        "n_shared_experts": 1,
        "first_k_dense_replace": 1,
        "n_group": 1,
        "topk_group": 1,
    },
    "distilbert": {
        "vocab_size": 1000,
        "dim": 128,
        "n_layers": 3,
        "n_heads": 4,
        "hidden_dim": 256,
        "max_position_embeddings": 512,
    },
    "exaone4": _GROUPED
    | {"num_hidden_layers": 4, "sliding_window": 16, "sliding_window_pattern": 2},
    "falcon": {
        "vocab_size": 1000,
        "hidden_size": 128,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "alibi": False,
    },
    "falcon_mamba": _MAMBA,
    "gemma": _GROUPED,
    "gemma2": _GROUPED | {"sliding_window": 256, "query_pre_attn_scalar": 32},
    "gemma3": {
        "mm_tokens_per_image": 4,
        "image_token_index": 990,
        "boi_token_index": 991,
        "eoi_token_index": 992,
        "text_config": _GROUPED
        | {"model_type": "gemma3_text", "sliding_window": 256, "sliding_window_pattern": 2},
        "vision_config": _CLIP_VISION
        | {"model_type": "siglip_vision_model", "vision_use_head": False},
    },
    "gemma3_text": _GROUPED | {"sliding_window": 256, "sliding_window_pattern": 2},
    "glm": _GROUPED | {"pad_token_id": 0},
    "glm4": _GROUPED | {"pad_token_id": 0},
    "glm4_moe": _GROUPED
    | _EXPERTS
    | {
        "n_routed_experts": 4,
        "n_shared_experts": 1,
        "first_k_dense_replace": 1,
        "n_group": 1,
        "topk_group": 1,
    },
    "gpt2": _GPT,
    "gpt_bigcode": _GPT | {"multi_query": True},
    "gpt_neo": {
        "vocab_size": 1000,
        "hidden_size": 128,
        "num_layers": 4,
        "num_heads": 4,
        "max_position_embeddings": 512,
        "attention_types": [[["global", "local"], 2]],
        "window_size": 256,
    },
    "gpt_neox": _LEARNED,
    "gptj": _GPT | {"rotary_dim": 16},
    "gpt_oss": _GROUPED | _EXPERTS | {"num_local_experts": 4, "sliding_window": 256},
    "granite": _ROTARY,
    "granitemoe": _ROTARY | _EXPERTS | {"num_local_experts": 4},
    "jamba": _ROTARY
    | {
        "num_hidden_layers": 4,
        "attn_layer_period": 4,
        "attn_layer_offset": 2,
        "expert_layer_period": 2,
        "expert_layer_offset": 1,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "mamba_d_state": 16,
        "mamba_d_conv": 4,
        "mamba_expand": 2,
        "mamba_dt_rank": 8,
    },
    "llama": _ROTARY,
    "llama4_text": _GROUPED
    | {
        "intermediate_size_mlp": 256,
        "num_local_experts": 4,
        "num_experts_per_tok": 1,
        "num_hidden_layers": 4,
    },
    "llava": {
        "image_token_index": 990,
        "image_seq_length": 16,
        "text_config": _ROTARY | {"model_type": "llama"},
        "vision_config": _CLIP_VISION,
    },
    "mamba": _MAMBA | {"time_step_rank": 8},
    "mamba2": _MAMBA | {"num_heads": 8, "head_dim": 32, "n_groups": 1, "chunk_size": 16},
    "mbart": _TWO_STACKS,
    "ministral": _GROUPED | {"sliding_window": 256},
    "mistral": _GROUPED | {"sliding_window": None},
    "mistral3": {
        "tie_word_embeddings": False,
        "text_config": _GROUPED | {"model_type": "mistral", "sliding_window": None},
        "vision_config": _CLIP_VISION | {"model_type": "pixtral"},
    },
    "mixtral": _ROTARY | _EXPERTS | {"num_local_experts": 4},
    "modernbert": _LEARNED | {"num_hidden_layers": 4, "local_attention": 128, "pad_token_id": 0},
    "mpt": {"vocab_size": 1000, "d_model": 128, "n_layers": 3, "n_heads": 4, "max_seq_len": 512},
    "mt5": _T5 | {"feed_forward_proj": "gated-gelu"},
    "nemotron": _GROUPED,
    "olmo": _ROTARY,
    "olmo2": _ROTARY,
    "olmo3": _ROTARY | {"num_hidden_layers": 4, "sliding_window": 16, "pad_token_id": 0},
    "olmoe": _ROTARY | _EXPERTS | {"num_experts": 4},
    "opt": {
        "vocab_size": 1000,
        "hidden_size": 128,
        "ffn_dim": 256,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "max_position_embeddings": 512,
        "word_embed_proj_dim": 128,
    },
    "phi": _ROTARY | {"partial_rotary_factor": 0.5},
    "phi3": _ROTARY | {"pad_token_id": 0},
    "phimoe": _ROTARY | _EXPERTS | {"num_local_experts": 4},
    "qwen2": _ROTARY,
    "qwen2_5_vl": {
        "image_token_id": 990,
        "text_config": _QWEN_TEXT | {"model_type": "qwen2_5_vl_text"},
        "vision_config": _QWEN_VISION
        | {
            "model_type": "qwen2_5_vl",
            "hidden_size": 64,
            "intermediate_size": 128,
            "out_hidden_size": 128,
            "window_size": 56,
            "fullatt_block_indexes": [1],
        },
    },
    "qwen2_moe": _ROTARY | _EXPERTS | {"num_experts": 4, "shared_expert_intermediate_size": 128},
    "qwen2_vl": {
        "image_token_id": 990,
        "text_config": _QWEN_TEXT | {"model_type": "qwen2_vl_text"},
        "vision_config": _QWEN_VISION
        | {"model_type": "qwen2_vl", "embed_dim": 64, "hidden_size": 128, "mlp_ratio": 2},
    },
    "qwen3": _GROUPED,
    "qwen3_moe": _GROUPED | _EXPERTS | {"num_experts": 4},
    "qwen3_next": _GROUPED
    | _EXPERTS
    | {
        "num_hidden_layers": 4,
        "num_experts": 4,
        "shared_expert_intermediate_size": 64,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 16,
        "linear_value_head_dim": 16,
    },
    "roberta": _LEARNED,
    "seed_oss": _GROUPED | {"residual_dropout": 0.1},
    "smollm3": _GROUPED | {"num_hidden_layers": 4, "pad_token_id": 0},
    "stablelm": _ROTARY,
    "starcoder2": _ROTARY,
    "t5": _T5,
    "vit": _LEARNED | {"image_size": 56, "patch_size": 14, "num_labels": 10},
    "whisper": _TWO_STACKS
    | {
        "num_mel_bins": 16,
        "max_source_positions": 50,
        "max_target_positions": 64,
        "pad_token_id": 0,
        "decoder_start_token_id": 1,
    },
    "xlm-roberta": _LEARNED,
    "zamba2": _ROTARY
    | _MAMBA2
    | {
        "num_hidden_layers": 4,
        "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid"],
        "num_mem_blocks": 1,
        "num_key_value_heads": 4,
        "attention_head_dim": 64,
        "attention_hidden_size": 256,
        "n_mamba_heads": 8,
        "mamba_headdim": 32,
        "mamba_ngroups": 1,
        "chunk_size": 16,
        "use_mem_rope": True,
    },
}
"""By model_type, which every one of them is given."""


def tiny_config(model_type: str) -> Config:
    """Return the small config of a model_type."""
    return {"model_type": model_type, **TINY[model_type]}
