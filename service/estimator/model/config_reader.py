"""Readers of config.json fields.

Every field is required or has the default that transformers gives it; nothing is guessed.
"""

from collections.abc import Mapping

from service.estimator.values.errors import InvalidConfigError, NotModelledError

Config = Mapping[str, object]
_MODEL_TYPES = {"kimi_k2": "deepseek_v3"}
"""Types that transformers 5.23 has no class for, by the type whose class their ``architectures``
name: Kimi K2's config.json says ``DeepseekV3ForCausalLM``.
"""


def put_known_model_type(config: Config) -> Config:
    """Return the config with the ``model_type`` of its model's class."""
    known = _MODEL_TYPES.get(str(config.get("model_type")))
    return config if known is None else {**config, "model_type": known}


def apply_aliases(config: Config, **names: str) -> Config:
    """Return the config with fields under transformers' names too.

    ``new="old"`` stands in where ``new`` is absent.
    """
    renamed = {
        new: config[old] for new, old in names.items() if new not in config and old in config
    }
    return {**config, **renamed}


def read_section(config: Config, name: str) -> Config:
    """Return a nested config; empty where it is absent or null."""
    value = config.get(name)
    if not isinstance(value, Mapping | None):
        message = f"config field {name!r} is {value!r}; it must be an object"
        raise InvalidConfigError(message, field=name)
    return value or {}


def read_sub_config(config: Config, name: str, absent: Config, default: Config) -> Config:
    """Return a nested config with its class's defaults.

    transformers makes one that is absent or null of other numbers than one that says nothing
    (``SubConfigSpec.init_kwargs``): these are ``absent``.
    """
    return {**default, **(absent if config.get(name) is None else read_section(config, name))}


def read_integer(config: Config, name: str, default: int | None = None) -> int:
    """Return a positive integer field.

    ``default`` stands in when it is absent or null.
    """
    value = config.get(name)
    if value is None:
        if default is None:
            message = f"config lacks {name!r}, an integer that this model type needs"
            raise InvalidConfigError(message, field=name)
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        message = f"config field {name!r} is {value!r}; it must be an integer of 1 or more"
        raise InvalidConfigError(message, field=name)
    return value


def read_num_experts(config: Config, default: int) -> int:
    """Return the number of routed experts.

    The config says ``num_local_experts`` or ``num_experts``, which mean the same. transformers 5.23
    reads both (``attribute_map`` of mixtral, gpt_oss and qwen3_moe) and saves the first.
    """
    return read_integer(config, "num_local_experts", read_integer(config, "num_experts", default))


def read_num_shared_experts(config: Config, default: int) -> int:
    """Return the number of experts that every token uses.

    Null, which some code reads as none, transformers 5.23 refuses.
    """
    if config.get("n_shared_experts", default) is None:
        message = (
            "config field 'n_shared_experts' is null; it must be an integer of 1 or more, "
            f"{default} where it is left out"
        )
        raise InvalidConfigError(message, field="n_shared_experts")
    return read_integer(config, "n_shared_experts", default)


def read_fraction(config: Config, name: str, default: float) -> float:
    """Return a number between 0 and 1, such as a dropout."""
    value = config.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        message = f"config field {name!r} is {value!r}; it must be a number from 0 to 1"
        raise InvalidConfigError(message, field=name)
    return float(value)


def read_flag(config: Config, name: str, *, default: bool) -> bool:
    """Return a boolean field."""
    value = config.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        message = f"config field {name!r} is {value!r}; it must be true or false"
        raise InvalidConfigError(message, field=name)
    return value


def read_string(config: Config, name: str, default: str) -> str:
    """Return a text field."""
    value = config.get(name, default)
    if not isinstance(value, str):
        message = f"config field {name!r} is {value!r}; it must be a string"
        raise InvalidConfigError(message, field=name)
    return value


def read_head_dim(config: Config, hidden_size: int, num_heads: int) -> int:
    """Return the head dimension.

    It is configured, or hidden size over heads, which must then divide.
    """
    if config.get("head_dim") is not None:
        return read_integer(config, "head_dim")
    if hidden_size % num_heads:
        message = (
            f"hidden_size {hidden_size} is not divisible by num_attention_heads {num_heads} and "
            "head_dim is not given"
        )
        raise InvalidConfigError(message, field="num_attention_heads")
    return hidden_size // num_heads


def read_rotary_dim(config: Config, dim: int, default: float) -> int:
    """Return the rotated elements of a head of ``dim``.

    Its partial rotary factor stands in either form of the rope fields.
    """
    sections = [config.get("rope_parameters"), config.get("rope_scaling"), config]
    factors = [
        section.get("partial_rotary_factor") for section in sections if isinstance(section, Mapping)
    ]
    factor = next((value for value in factors if value is not None), default)
    return int(
        dim * read_fraction({"partial_rotary_factor": factor}, "partial_rotary_factor", default)
    )


def read_layer_kinds(config: Config, default: str, letters: Mapping[str, str]) -> str:
    """Return a letter per layer of ``layer_types``.

    ``default`` is returned when the config does not list them.
    """
    types = config.get("layer_types")
    if types is None:
        return default
    if not isinstance(types, list) or any(name not in letters for name in types):
        message = f"config field 'layer_types' must be a list of {', '.join(sorted(letters))}"
        raise InvalidConfigError(message, field="layer_types")
    return "".join(letters[name] for name in types)


def refuse_false(config: Config, name: str) -> None:
    """Refuse a switch that is off, where it is on by default."""
    if not read_flag(config, name, default=True):
        what = f"{name} false of model_type {config.get('model_type')!r}"
        raise NotModelledError(what, field=name, modelled=["true"])


def refuse_field(config: Config, name: str, *, modelled: str) -> None:
    """Raise NotModelledError for a switch that is not modelled."""
    if config.get(name):
        what = f"{name} {config[name]!r} of model_type {config.get('model_type')!r}"
        raise NotModelledError(what, field=name, modelled=[modelled])


def read_sliding_window(config: Config, default: int | None = None) -> int | None:
    """Return the sliding window.

    Null is none, an absent field the family's default.
    """
    if "sliding_window" not in config:
        return default
    return read_integer(config, "sliding_window") if config["sliding_window"] is not None else None


def read_count(config: Config, name: str, default: int) -> int:
    """Return an integer field that may be zero."""
    return 0 if config.get(name) == 0 else read_integer(config, name, default)
