"""The model that Megatron-LM's arguments describe, as an architecture of ours.

``core/models/gpt/gpt_layer_specs.py`` builds every layer from the arguments alone; defaults are
those of ``megatron/training/arguments.py`` and ``core/transformer/transformer_config.py``.
"""

from dataclasses import dataclass

from service.formats.launches.pretraining.megatron_experts import (
    MAX_LAYERS,
    read_experts,
    read_latent,
)
from service.formats.launches.pretraining.megatron_keys import OTHER_LAYERS, SIZES, SOURCE
from service.formats.launches.pretraining.megatron_sizes import (
    MODEL,
    take_flag,
    take_fraction,
    take_size,
)
from service.formats.launches.pretraining.megatron_vocabulary import read_vocabulary
from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.settings import Setting, Settings, make_default


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """Numbers of the model that its layout needs, None where not said."""

    num_layers: int | None = None
    num_experts: int = 0


def put_model(
    arguments: Settings, draft: Draft, handed_in: HandedIn, tensor_parallel: int
) -> ModelShape:
    """Set the model by its sizes, or ask for it."""
    layers = arguments.take("num_layers", "encoder_num_layers")
    hidden, heads = arguments.take("hidden_size"), arguments.take("num_attention_heads")
    experts = arguments.take("num_experts")
    shape = _read_shape(layers, experts)
    why = _find_obstacle(arguments, draft, (layers, hidden, heads))
    if why or layers is None or hidden is None or heads is None:
        for setting in (layers, hidden, heads, experts):
            if setting is not None:
                draft.note(setting, MODEL)
        _ask_model(arguments, draft, why)
        return shape
    sizes = _read_sizes(arguments, draft, (layers, hidden, heads))
    sizes = _read_kinds(arguments, draft) | sizes
    if experts is not None and shape.num_experts:
        sizes |= read_experts(arguments, draft, experts, sizes)
    if take_flag(arguments, "multi_latent_attention", draft, "latent attention"):
        sizes |= read_latent(arguments, draft, sizes)
    vocabulary = read_vocabulary(arguments, draft, handed_in, tensor_parallel)
    if vocabulary is not None:
        sizes["vocab_size"] = vocabulary
        draft.put("model", {"architecture": {"family": _name_family(sizes), **sizes}})
    return shape


def _read_shape(layers: Setting | None, experts: Setting | None) -> ModelShape:
    num_layers = None if layers is None else layers.as_int(minimum=1)
    if layers is not None and num_layers is not None and num_layers > MAX_LAYERS:
        raise layers.refuse(f"{MAX_LAYERS} layers at most")
    return ModelShape(num_layers=num_layers, num_experts=0 if experts is None else experts.as_int())


def _find_obstacle(arguments: Settings, draft: Draft, sizes: tuple[Setting | None, ...]) -> str:
    """Return why the sizes make no model here, empty where they do."""
    strange = [setting for name in OTHER_LAYERS if (setting := _take_kind(arguments, name))]
    for setting in strange:
        draft.ignore(setting, "the model is asked: its layers are not GPT's")
    if strange:
        return f"{strange[0].key} makes layers that are not GPT's"
    missing = None in sizes
    return "num-layers, hidden-size and num-attention-heads are not all said" if missing else ""


def _take_kind(arguments: Settings, name: str) -> Setting | None:
    """Return an argument of other layers, None where it is off."""
    setting = arguments.take(name)
    is_plain = setting is None or str(setting.value).casefold() in {"false", "0", "local", "gpt"}
    return None if is_plain else setting


def _ask_model(arguments: Settings, draft: Draft, why: str) -> None:
    """Ask for a model that nobody names; account for its sizes."""
    if draft.get("model") is None:
        draft.ask("model", why)
    for name in SIZES:
        setting = arguments.take(name)
        if setting is not None:
            draft.note(setting, MODEL)


def _read_sizes(
    arguments: Settings, draft: Draft, named: tuple[Setting, Setting, Setting]
) -> dict[str, object]:
    """Return the sizes of attention and of the dense feed-forward layers."""
    num_layers, hidden, heads = (setting.as_int(minimum=1) for setting in named)
    for setting in named:
        draft.note(setting, MODEL)
    swiglu = take_flag(arguments, "swiglu", draft, "a gated feed-forward layer of SiLU")
    geglu = take_flag(arguments, "quick_geglu", draft, "a gated feed-forward layer of GELU")
    gated = swiglu or geglu
    inner = take_size(arguments, "ffn_hidden_size", draft)
    if inner is None:
        inner = int((4 * hidden * 2 / 3) / 64) * 64 if gated else 4 * hidden
    head_dim = take_size(arguments, "kv_channels", draft)
    if head_dim is None and hidden % heads:
        message = f"hidden-size {hidden} is no multiple of {heads} num-attention-heads"
        raise LaunchFormatError(f"{message}; say kv-channels", where=named[2].where)
    groups = take_size(arguments, "num_query_groups", draft)
    grouped = take_flag(arguments, "group_query_attention", draft, "heads share keys and values")
    positions = take_size(arguments, "max_position_embeddings", draft)
    return {
        "hidden_size": hidden,
        "num_hidden_layers": num_layers,
        "num_attention_heads": heads,
        "num_key_value_heads": (groups or 1) if grouped else heads,
        "head_dim": hidden // heads if head_dim is None else head_dim,
        "intermediate_size": inner,
        "gated": gated,
        **({"activation": "silu"} if swiglu else {}),
        "max_position_embeddings": positions or 0,
    }


def _read_kinds(arguments: Settings, draft: Draft) -> dict[str, object]:
    """Return kinds of norms, positions, biases and dropout."""
    bias = not take_flag(arguments, "disable_bias_linear", draft, "no biases")
    qkv = take_flag(arguments, "add_qkv_bias", draft, "query, key and value have biases")
    norm = arguments.take("normalization") or make_default("normalization", "LayerNorm", SOURCE)
    kind = norm.as_choice({"LayerNorm": "layer", "RMSNorm": "rms"})
    draft.note(norm, MODEL)
    untied = take_flag(
        arguments, "untie_embeddings_and_output_weights", draft, "the head is its own table"
    )
    query_key = take_flag(arguments, "qk_layernorm", draft, "norms on query and key")
    squared = take_flag(arguments, "squared_relu", draft, "a squared ReLU")
    dropouts = {
        name: take_fraction(arguments, name, draft)
        for name in ("attention_dropout", "hidden_dropout")
    }
    return {
        "activation": "relu2" if squared else "gelu",
        "norm": kind,
        "rotary": _read_positions(arguments, draft),
        "tie_word_embeddings": not untied,
        "attention_bias": bias or qkv,
        "attention_output_bias": bias,
        "mlp_bias": bias,
        "query_key_norm": query_key,
        "attention_dropout": dropouts["attention_dropout"],
        "residual_dropout": dropouts["hidden_dropout"],
        "embedding_dropout": dropouts["hidden_dropout"],
    }


def _read_positions(arguments: Settings, draft: Draft) -> bool:
    """Return whether positions are rotary, or none, rather than a learned table."""
    rotary = take_flag(arguments, "use_rotary_position_embeddings", draft, "rotary positions")
    kind = arguments.take("position_embedding_type")
    switch = arguments.take("position_embedding")
    if switch is not None:
        draft.note(switch, "no table of positions")
    kind = kind or make_default("position_embedding_type", "learned_absolute", SOURCE)
    learned = kind.as_choice(
        {"learned_absolute": True}
        | dict.fromkeys(("rope", "yarn", "mrope", "none", "relative"), False)
    )
    draft.note(kind, MODEL)
    return rotary or not learned


def _name_family(sizes: dict[str, object]) -> str:
    """Return the family whose specification holds the sizes."""
    if "key_value_latent" in sizes:
        return "deepseek_v3"
    if "num_experts" in sizes:
        return "qwen2_moe" if sizes["router"] == "softmax" else "mixtral"
    is_llama = sizes["rotary"] and sizes["norm"] == "rms" and sizes["gated"]
    return "llama" if is_llama and not sizes["mlp_bias"] else "gpt2"
