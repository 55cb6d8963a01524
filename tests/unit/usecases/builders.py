"""Builders for tests of use cases."""

from service.estimator.model.families.registry import architecture_from_config
from service.usecases.stored_specs.spec_cache import NamedModel

TINY_LLAMA = {
    "model_type": "llama",
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
}


def named_model(name: str, *, version: str = "1") -> NamedModel:
    """Return a tiny model under a name."""
    return NamedModel(
        name=name, revision=1, version=version, architecture=architecture_from_config(TINY_LLAMA)
    )
