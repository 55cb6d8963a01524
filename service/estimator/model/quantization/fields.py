"""Fields that quantisation configs share: groups, blocks and lists of modules."""

from collections.abc import Mapping

from service.estimator.model.config_reader import Config, read_integer
from service.estimator.values.errors import InvalidConfigError

FIELD = "quantization_config"
FP32_BYTES = 4
WHOLE_ROW = -1
DEFAULT_GROUP = 128


def read_group_size(config: Config, name: str, default: int | None = DEFAULT_GROUP) -> int | None:
    """Return a group size; -1 and null stand for the whole row."""
    if name in config and config[name] in {None, WHOLE_ROW}:
        return None
    return (
        read_integer(config, name, default)
        if default is not None or config.get(name) is not None
        else None
    )


def read_block(config: Config) -> tuple[int, int] | None:
    """Return the rows and columns of a scale.

    They are 128 x 128 where none are named.
    """
    return (
        parse_block(config["weight_block_size"])
        if "weight_block_size" in config
        else (DEFAULT_GROUP, DEFAULT_GROUP)
    )


def parse_block(value: object) -> tuple[int, int] | None:
    """Return the rows and columns of a scale."""
    if value is None:
        return None
    match value:
        case [int(height), int(width)] if height > 0 and width > 0:
            return height, width
        case _:
            message = f"the block of a scale is {value!r}; it must be two positive integers"
            raise InvalidConfigError(message, field=f"{FIELD}.weight_block_size")


def read_names(config: Config, name: str) -> tuple[str, ...] | None:
    """Return a list of module names or patterns.

    None when it is absent or null.
    """
    value = config.get(name)
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        message = f"{FIELD}.{name} is {value!r}; it must be a list of strings"
        raise InvalidConfigError(message, field=f"{FIELD}.{name}")
    return tuple(value)


def is_fp8_cache(scheme: object) -> bool:
    """Return whether a ``kv_cache_scheme`` keeps keys and values in fp8."""
    return (
        isinstance(scheme, Mapping)
        and scheme.get("num_bits") == 8  # noqa: PLR2004 - bits of a byte
        and scheme.get("type", "float") == "float"
    )
