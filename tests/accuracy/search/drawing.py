"""Questions drawn at random: usual options on published models, unusual fields on small ones."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from service.catalog.models import list_models, load_config
from service.estimator.values.dtypes import DType
from service.estimator.values.generation import Client
from service.estimator.values.layout import Sharding
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import Attention, Cache, Checkpointing, Lora, Method
from tests.accuracy.contract import CAST_AT_GATHER, MASTER_BF16
from tests.accuracy.search.questions import SERVE, TRAIN, Question
from tests.tiny_models import TINY, tiny_config

Choices = Mapping[str, Sequence[Any]]

_FIELDS: Choices = {
    "attention_bias": (True, False),
    "attention_dropout": (0.1,),
    "clip_qkv": (8.0,),
    "head_dim": (16, 24, 48, 64, 128),
    "hidden_act": ("gelu", "relu", "gelu_pytorch_tanh", "silu"),
    "hidden_size": (96, 160, 192, 256),
    "intermediate_size": (96, 344, 1024),
    "mlp_bias": (True, False),
    "moe_intermediate_size": (48, 160),
    "n_embd": (96, 160, 256),
    "n_head": (2, 8),
    "n_routed_experts": (8,),
    "n_shared_experts": (2,),
    "norm_topk_prob": (True, False),
    "num_attention_heads": (2, 8, 16),
    "num_experts": (3, 8),
    "num_experts_per_tok": (1, 3),
    "num_heads": (2, 8),
    "num_hidden_layers": (1, 2, 5),
    "num_key_value_heads": (1, 2, 4),
    "num_local_experts": (3, 8),
    "partial_rotary_factor": (0.25, 1.0),
    "sliding_window": (4, 32, 500),
    "tie_word_embeddings": (True, False),
    "use_qkv_bias": (True,),
    "use_qk_norm": (True,),
    "qk_layernorm": (True,),
    "vocab_size": (1003, 8000),
}
_ADDED = ("attention_bias", "attention_dropout", "hidden_act", "mlp_bias", "tie_word_embeddings")
"""Fields that small configs leave at their defaults."""
_OF_FAMILIES: Mapping[str, Choices] = {
    "bloom": {"hidden_dropout": (0.1,), "attention_dropout": (0.1,), "n_head": (2, 8)},
    "falcon": {
        "new_decoder_architecture": (True,),
        "parallel_attn": (False,),
        "multi_query": (False,),
        "bias": (True,),
        "alibi": (True,),
        "num_ln_in_parallel_attn": (1,),
    },
    "gemma2": {"attn_logit_softcapping": (None,), "final_logit_softcapping": (None,)},
    "gpt2": {"n_inner": (200,), "scale_attn_by_inverse_layer_idx": (True,), "attn_pdrop": (0.0,)},
    "gpt_neox": {"use_parallel_residual": (False,), "rotary_pct": (0.5, 1.0)},
    "mpt": {"no_bias": (False,), "resid_pdrop": (0.1,)},
    "olmoe": {"clip_qkv": (8.0,)},
    "opt": {
        "do_layer_norm_before": (False,),
        "word_embed_proj_dim": (64,),
        "dropout": (0.0,),
        "enable_bias": (False,),
    },
    "phi": {"resid_pdrop": (0.1,), "qk_layernorm": (True,)},
    "phi3": {"resid_pdrop": (0.1,), "embd_pdrop": (0.1,)},
    "qwen3_next": {
        "linear_key_head_dim": (32, 64),
        "linear_num_value_heads": (2, 8),
        "linear_value_head_dim": (32, 128),
        "mlp_only_layers": ([0],),
    },
    "qwen2_moe": {"mlp_only_layers": ([0],), "decoder_sparse_step": (2,)},
    "qwen3_moe": {"mlp_only_layers": ([0],), "decoder_sparse_step": (2,)},
    "stablelm": {
        "use_parallel_residual": (True,),
        "qk_layernorm": (True,),
        "use_qkv_bias": (True,),
        "hidden_dropout": (0.1,),
    },
    "starcoder2": {"use_bias": (False,), "residual_dropout": (0.1,), "embedding_dropout": (0.1,)},
    "bert": {"hidden_dropout_prob": (0.0,), "attention_probs_dropout_prob": (0.0,)},
    "vit": {"num_channels": (1,), "qkv_bias": (False,)},
    "whisper": {"dropout": (0.1,), "activation_dropout": (0.1,)},
    "bart": {"dropout": (0.0,), "scale_embedding": (True,), "activation_dropout": (0.1,)},
    "t5": {"feed_forward_proj": ("gated-gelu",), "dropout_rate": (0.0,), "d_kv": (16, 64)},
    "mamba2": {"n_groups": (2, 8), "chunk_size": (8, 256), "use_bias": (True,)},
    "mamba": {"use_bias": (True,), "use_conv_bias": (False,), "expand": (1, 3)},
}
_PRECISIONS = (
    *(["bf16"] * 4),
    *(["amp_bf16"] * 3),
    *(["fp32"] * 2),
    "bf16_autocast",
    "fp16",
    "amp_fp16",
)
_OPTIMIZERS = ("adamw",) * 4 + ("adamw_fused",) * 2 + ("adamw_loop", "sgd", "sgd_momentum")
_KERNELS = (Attention.SDPA,) * 5 + (Attention.EAGER,) * 2 + (Attention.FLASH,) * 2
_LENGTHS = (1, 2, 7, 40, 77, 128, 129, 197, 256, 511, 512, 1000)
_TWO_STACKS = ("bart", "mbart", "t5", "mt5", "whisper")
_TARGETS = (
    None,
    None,
    ("q_proj", "v_proj"),
    ("q_proj", "k_proj", "v_proj", "o_proj"),
    ("down_proj",),
    ("query_key_value",),
    ("c_attn",),
    ("query", "value"),
    ("q", "v"),
)


def draw(random: Random, *, published: float, models: Sequence[str] = ()) -> Question:
    """Draw a question; ``published`` is the part of them on published models."""
    small = [name for name in models or TINY if name in TINY]
    large = [name for name in models or _list_published() if name not in TINY]
    pool = large if large and (not small or random.random() < published) else small
    model = random.choice(pool)
    changes = draw_changes(random, model) if model in TINY else {}
    layers = None if model in TINY else random.choice((2, 3))
    if random.random() < 0.25:
        options = draw_serving(random)
        return Question(model=model, base=SERVE, changes=changes, options=options, layers=layers)
    layout = draw_layout(random)
    options = draw_training(random, sharded=bool(layout))
    if model in _TWO_STACKS and random.random() < 0.4:
        options["decoder_length"] = random.choice(_LENGTHS)
    return Question(
        model=model,
        base=TRAIN,
        changes=changes,
        options=options,
        layout=layout,
        layers=layers,
    )


def _list_published() -> list[str]:
    return [entry.name for entry in list_models() if not _is_deep_pair(load_config(entry))]


def _is_deep_pair(config: Mapping[str, object]) -> bool:
    """Return whether a model has several stacks, which are not cut."""
    return any(name in config for name in ("decoder_layers", "num_decoder_layers", "vision_config"))


def draw_changes(random: Random, model: str) -> dict[str, Any]:
    """Draw up to three fields of a small config."""
    config = tiny_config(model)
    choices = {
        name: values for name, values in _FIELDS.items() if name in config or name in _ADDED
    } | dict(_OF_FAMILIES.get(model, {}))
    names = random.sample(sorted(choices), min(len(choices), random.choice((0, 1, 1, 2, 2, 3))))
    return {name: random.choice(choices[name]) for name in names}


def draw_layout(random: Random) -> dict[str, Any]:
    """Draw a rank of FSDP2, or none."""
    if random.random() < 0.8:
        return {}
    layout = {
        "data_parallel": random.choice((2, 3, 8, 64)),
        "sharding": Sharding.FSDP2,
        "zero_stage": 3,
    }
    if random.random() < 0.3:
        layout["reshard_after_forward"] = False
    if random.random() < 0.15:
        layout["tensor_parallel"] = 2
    return layout


def draw_training(random: Random, *, sharded: bool) -> dict[str, Any]:
    """Draw options of a training step."""
    options: dict[str, Any] = {
        "sequence_length": random.choice(_LENGTHS),
        "micro_batch_size": random.choice((1, 1, 2, 3, 5, 7)),
        "precision": POLICIES[random.choice(_PRECISIONS)],
        "optimizer": random.choice(_OPTIMIZERS),
    }
    if random.random() < 0.08:
        options["precision"] = MASTER_BF16
    if sharded and random.random() < 0.6:
        options["precision"] = CAST_AT_GATHER
    rarely: tuple[tuple[float, str, Sequence[Any]], ...] = (
        (0.4, "activation_checkpointing", (Checkpointing.FULL,)),
        (0.6, "attention", _KERNELS),
        (0.2, "keeps_logits", (False,)),
        (0.2, "fp32_outputs", (True,)),
        (0.15, "padding_mask", (True,)),
        (0.15, "gradient_clipping", (True,)),
        (0.15, "gradient_accumulation_steps", (2, 4)),
    )
    for chance, name, values in rarely:
        if random.random() < chance:
            options[name] = random.choice(values)
    if random.random() < 0.25:
        options["method"] = Method.LORA
        options["lora"] = Lora(
            rank=random.choice((4, 8, 16, 64)),
            targets=random.choice(_TARGETS),
            dropout=random.choice((0.0, 0.1)),
        )
    return options


def draw_serving(random: Random) -> dict[str, Any]:
    """Draw options of a replica."""
    dtype = random.choice((DType.BF16, DType.BF16, DType.FP32, DType.FP16))
    options: dict[str, Any] = {
        "num_sequences": random.choice((1, 2, 3, 5, 7)),
        "prompt_tokens": random.choice(_LENGTHS),
        "output_tokens": random.choice((0, 2, 2, 3, 9)),
        "weight_dtype": dtype,
        "kv_cache_dtype": dtype,
        "client": random.choice((Client.LOOP,) * 4 + (Client.GENERATE,)),
        "attention": random.choice(_KERNELS),
    }
    if random.random() < 0.25:
        options |= {"cache": Cache.STATIC, "max_model_len": random.choice((1024, 1100))}
    return options
