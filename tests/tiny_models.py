"""A small config of every model_type that can be read.

They are wide enough that no number hides behind rounding, and quick to run.
"""

from collections.abc import Mapping

from tests.tiny_shapes import (
    CLIP_VISION,
    EXPERTS,
    GPT,
    GROUPED,
    INDEXER,
    LATENT,
    LEARNED,
    MAMBA,
    MAMBA2,
    QWEN_TEXT,
    QWEN_VISION,
    ROTARY,
    T5,
    TWO_STACKS,
    Config,
)

TINY: Mapping[str, Config] = {
    "arcee": ROTARY,
    "bamba": ROTARY | MAMBA2 | {"attn_layer_indices": [1], "mamba_chunk_size": 16},
    "bart": TWO_STACKS,
    "bert": LEARNED,
    "bloom": {"vocab_size": 1000, "hidden_size": 128, "n_layer": 3, "n_head": 4},
    "camembert": LEARNED,
    "clip": {
        "projection_dim": 64,
        "text_config": LEARNED
        | {"model_type": "clip_text_model", "max_position_embeddings": 77, "projection_dim": 64},
        "vision_config": CLIP_VISION,
    },
    "codegen": GPT | {"rotary_dim": 16},
    "cohere": ROTARY,
    "cohere2": GROUPED | {"sliding_window": 256},
    "deepseek_v2": ROTARY | EXPERTS | LATENT | {"topk_method": "greedy"},
    "deepseek_v3": ROTARY | EXPERTS | LATENT,
    "deepseek_v32": ROTARY | EXPERTS | LATENT | INDEXER,
    "distilbert": {
        "vocab_size": 1000,
        "dim": 128,
        "n_layers": 3,
        "n_heads": 4,
        "hidden_dim": 256,
        "max_position_embeddings": 512,
    },
    "electra": LEARNED | {"embedding_size": 64},
    "exaone4": GROUPED
    | {"num_hidden_layers": 4, "sliding_window": 16, "sliding_window_pattern": 2},
    "falcon": {
        "vocab_size": 1000,
        "hidden_size": 128,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "alibi": False,
    },
    "falcon_h1": GROUPED | MAMBA2 | {"mamba_d_ssm": 256, "mamba_chunk_size": 16},
    "falcon_mamba": MAMBA,
    "gemma": GROUPED,
    "gemma2": GROUPED | {"sliding_window": 256, "query_pre_attn_scalar": 32},
    "gemma3": {
        "mm_tokens_per_image": 4,
        "image_token_index": 990,
        "boi_token_index": 991,
        "eoi_token_index": 992,
        "text_config": GROUPED
        | {"model_type": "gemma3_text", "sliding_window": 256, "sliding_window_pattern": 2},
        "vision_config": CLIP_VISION
        | {"model_type": "siglip_vision_model", "vision_use_head": False},
    },
    "gemma3_text": GROUPED | {"sliding_window": 256, "sliding_window_pattern": 2},
    "glm": GROUPED | {"pad_token_id": 0},
    "glm4": GROUPED | {"pad_token_id": 0},
    "glm4_moe": GROUPED
    | EXPERTS
    | {
        "n_routed_experts": 4,
        "n_shared_experts": 1,
        "first_k_dense_replace": 1,
        "n_group": 1,
        "topk_group": 1,
    },
    "glm_moe_dsa": ROTARY
    | EXPERTS
    | LATENT
    | INDEXER
    | {"num_hidden_layers": 4, "index_topk_pattern": "FFSS"},
    "gpt2": GPT,
    "gpt_bigcode": GPT | {"multi_query": True},
    "gpt_neo": {
        "vocab_size": 1000,
        "hidden_size": 128,
        "num_layers": 4,
        "num_heads": 4,
        "max_position_embeddings": 512,
        "attention_types": [[["global", "local"], 2]],
        "window_size": 256,
    },
    "gpt_neox": LEARNED,
    "gptj": GPT | {"rotary_dim": 16},
    "gpt_oss": GROUPED | EXPERTS | {"num_local_experts": 4, "sliding_window": 256},
    "granite": ROTARY,
    "granitemoe": ROTARY | EXPERTS | {"num_local_experts": 4},
    "granitemoehybrid": ROTARY
    | MAMBA2
    | {
        "num_hidden_layers": 4,
        "layer_types": ["mamba", "attention", "mamba", "attention"],
        "num_local_experts": 4,
        "intermediate_size": 64,
        "shared_intermediate_size": 96,
        "mamba_chunk_size": 16,
    },
    "jamba": ROTARY
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
    "llama": ROTARY,
    "llama4_text": GROUPED
    | {
        "intermediate_size_mlp": 256,
        "num_local_experts": 4,
        "num_experts_per_tok": 1,
        "num_hidden_layers": 4,
    },
    "llava": {
        "image_token_index": 990,
        "image_seq_length": 16,
        "text_config": ROTARY | {"model_type": "llama"},
        "vision_config": CLIP_VISION,
    },
    "mamba": MAMBA | {"time_step_rank": 8},
    "mamba2": MAMBA | {"num_heads": 8, "head_dim": 32, "n_groups": 1, "chunk_size": 16},
    "mbart": TWO_STACKS,
    "ministral": GROUPED | {"sliding_window": 256},
    "mistral": GROUPED | {"sliding_window": None},
    "mistral3": {
        "tie_word_embeddings": False,
        "text_config": GROUPED | {"model_type": "mistral", "sliding_window": None},
        "vision_config": CLIP_VISION | {"model_type": "pixtral"},
    },
    "mixtral": ROTARY | EXPERTS | {"num_local_experts": 4},
    "modernbert": LEARNED | {"num_hidden_layers": 4, "local_attention": 128, "pad_token_id": 0},
    "mpt": {"vocab_size": 1000, "d_model": 128, "n_layers": 3, "n_heads": 4, "max_seq_len": 512},
    "mt5": T5 | {"feed_forward_proj": "gated-gelu"},
    "nemotron": GROUPED,
    "nemotron_h": GROUPED
    | {
        "hybrid_override_pattern": "M-E*ME",
        "mamba_num_heads": 8,
        "mamba_head_dim": 32,
        "ssm_state_size": 16,
        "n_groups": 2,
        "chunk_size": 16,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 64,
        "moe_shared_expert_intermediate_size": 96,
        "moe_latent_size": 48,
    },
    "olmo": ROTARY,
    "olmo2": ROTARY,
    "olmo3": ROTARY | {"num_hidden_layers": 4, "sliding_window": 16, "pad_token_id": 0},
    "olmoe": ROTARY | EXPERTS | {"num_experts": 4},
    "opt": {
        "vocab_size": 1000,
        "hidden_size": 128,
        "ffn_dim": 256,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "max_position_embeddings": 512,
        "word_embed_proj_dim": 128,
    },
    "phi": ROTARY | {"partial_rotary_factor": 0.5},
    "phi3": ROTARY | {"pad_token_id": 0},
    "phimoe": ROTARY | EXPERTS | {"num_local_experts": 4},
    "qwen2": ROTARY,
    "qwen2_5_vl": {
        "image_token_id": 990,
        "text_config": QWEN_TEXT | {"model_type": "qwen2_5_vl_text"},
        "vision_config": QWEN_VISION
        | {
            "model_type": "qwen2_5_vl",
            "hidden_size": 64,
            "intermediate_size": 128,
            "out_hidden_size": 128,
            "window_size": 56,
            "fullatt_block_indexes": [1],
        },
    },
    "qwen2_moe": ROTARY | EXPERTS | {"num_experts": 4, "shared_expert_intermediate_size": 128},
    "qwen2_vl": {
        "image_token_id": 990,
        "text_config": QWEN_TEXT | {"model_type": "qwen2_vl_text"},
        "vision_config": QWEN_VISION
        | {"model_type": "qwen2_vl", "embed_dim": 64, "hidden_size": 128, "mlp_ratio": 2},
    },
    "qwen3": GROUPED,
    "qwen3_moe": GROUPED | EXPERTS | {"num_experts": 4},
    "qwen3_next": GROUPED
    | EXPERTS
    | {
        "num_hidden_layers": 4,
        "num_experts": 4,
        "shared_expert_intermediate_size": 64,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 16,
        "linear_value_head_dim": 16,
    },
    "roberta": LEARNED,
    "seed_oss": GROUPED | {"residual_dropout": 0.1},
    "smollm3": GROUPED | {"num_hidden_layers": 4, "pad_token_id": 0},
    "stablelm": ROTARY,
    "starcoder2": ROTARY,
    "t5": T5,
    "vit": LEARNED | {"image_size": 56, "patch_size": 14, "num_labels": 10},
    "whisper": TWO_STACKS
    | {
        "num_mel_bins": 16,
        "max_source_positions": 50,
        "max_target_positions": 64,
        "pad_token_id": 0,
        "decoder_start_token_id": 1,
    },
    "xlm-roberta": LEARNED,
    "zamba2": ROTARY
    | MAMBA2
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
