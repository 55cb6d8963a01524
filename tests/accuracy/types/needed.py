"""Fields that a type's config class leaves out, and no model of it can be built without."""

from collections.abc import Mapping
from typing import Any

NEEDED: Mapping[str, Mapping[str, Any]] = {
    "autoformer": {"prediction_length": 24},
    "informer": {"prediction_length": 24},
    "time_series_transformer": {"prediction_length": 24},
    "aya_vision": {"vision_config": {"model_type": "siglip_vision_model"}},
    "dots1": {"n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 2},
    "esm": {"vocab_size": 33, "pad_token_id": 1},
    "hunyuan_v1_dense": {"head_dim": 128},
    "hunyuan_v1_moe": {"head_dim": 128},
    "hunyuan_vl": {"text_config": {"head_dim": 128}},
    "hunyuan_vl_text": {"head_dim": 128},
    "deepseek_v2": {"num_experts_per_tok": 6},
    "glm4_moe": {"head_dim": 128},
    "ministral": {"head_dim": 128},
    "nemotron": {"num_key_value_heads": 8},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 16},
    "chameleon": {"vocabulary_map": {"<image>": 8711}},
    "xmod": {"default_language": "en_XX"},
    "emu3": {"vocabulary_map": {"<image>": 151655}},
}
"""By type."""
