"""Sizes that small configs of one kind share."""

Config = dict[str, object]

ROTARY: Config = {
    "vocab_size": 1000,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
}
GROUPED = ROTARY | {"head_dim": 32}
WIDE_LLAMA: Config = {
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 688,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}
"""Of a vocabulary beside which its layers are small: logits decide."""
GPT: Config = {"vocab_size": 1000, "n_embd": 128, "n_layer": 3, "n_head": 4, "n_positions": 512}
LEARNED: Config = {
    "vocab_size": 1000,
    "hidden_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 512,
    "max_position_embeddings": 512,
}
TWO_STACKS: Config = {
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
T5: Config = {
    "vocab_size": 1000,
    "d_model": 128,
    "d_kv": 32,
    "d_ff": 256,
    "num_layers": 2,
    "num_decoder_layers": 3,
    "num_heads": 4,
}
CLIP_VISION: Config = {
    "model_type": "clip_vision_model",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "image_size": 56,
    "patch_size": 14,
    "projection_dim": 64,
}
QWEN_TEXT = ROTARY | {
    "rope_scaling": {"type": "mrope", "rope_type": "default", "mrope_section": [4, 6, 6]}
}
QWEN_VISION: Config = {
    "depth": 2,
    "num_heads": 4,
    "patch_size": 14,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "in_channels": 3,
}
EXPERTS: Config = {"num_experts_per_tok": 2, "moe_intermediate_size": 64}
MAMBA: Config = {
    "vocab_size": 1000,
    "hidden_size": 128,
    "num_hidden_layers": 3,
    "state_size": 16,
    "expand": 2,
    "conv_kernel": 4,
}
MAMBA2: Config = {
    "mamba_d_state": 16,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_n_heads": 8,
    "mamba_d_head": 32,
    "mamba_n_groups": 1,
}
LATENT: Config = {
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
}
INDEXER: Config = {"index_n_heads": 4, "index_head_dim": 32, "index_topk": 64}
