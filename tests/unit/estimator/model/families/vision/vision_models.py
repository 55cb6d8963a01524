"""Small models that read images, whose classes of transformers were built and traced."""

_VISION = {"hidden_size": 192, "intermediate_size": 768, "num_attention_heads": 4, "patch_size": 8}
_TEXT = {
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "vocab_size": 300,
}
SMALL: dict[str, dict[str, object]] = {
    "vit": {
        "model_type": "vit",
        "architectures": ["ViTForImageClassification"],
        **_VISION,
        "num_attention_heads": 6,
        "num_hidden_layers": 3,
        "image_size": 64,
        "num_labels": 10,
    },
    "clip": {
        "model_type": "clip",
        "projection_dim": 48,
        "text_config": {**_TEXT, "max_position_embeddings": 32},
        "vision_config": {**_VISION, "num_hidden_layers": 4, "image_size": 32},
    },
    "llava": {
        "model_type": "llava",
        "text_config": {**_TEXT, "model_type": "llama", "num_key_value_heads": 4},
        "vision_config": {**_VISION, "num_hidden_layers": 4, "image_size": 32},
    },
    "llava_whole": {
        "model_type": "llava",
        "vision_feature_layer": -1,
        "vision_feature_select_strategy": "full",
        "text_config": {**_TEXT, "model_type": "llama", "num_key_value_heads": 4},
        "vision_config": {**_VISION, "num_hidden_layers": 4, "image_size": 32},
    },
    "gemma3": {
        "model_type": "gemma3",
        "mm_tokens_per_image": 16,
        "tie_word_embeddings": False,
        "text_config": {
            **_TEXT,
            "num_hidden_layers": 4,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "sliding_window": 32,
            "sliding_window_pattern": 3,
            "tie_word_embeddings": False,
        },
        "vision_config": {
            **_VISION,
            "num_hidden_layers": 3,
            "image_size": 64,
            "vision_use_head": False,
        },
    },
    "qwen2_vl": {
        "model_type": "qwen2_vl",
        "text_config": {**_TEXT, "num_key_value_heads": 2},
        "vision_config": {"depth": 3, "embed_dim": 192, "hidden_size": 64, "num_heads": 4},
    },
    "qwen2_5_vl": {
        "model_type": "qwen2_5_vl",
        "text_config": {**_TEXT, "num_key_value_heads": 2},
        "vision_config": {
            "depth": 4,
            "hidden_size": 192,
            "intermediate_size": 500,
            "out_hidden_size": 64,
            "num_heads": 4,
            "fullatt_block_indexes": [1, 3],
            "hidden_act": "gelu",
        },
    },
}
