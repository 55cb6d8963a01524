"""Reader of the configs of compressed-tensors 0.20 (``CompressionFormat``)."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from service.estimator.model.config_reader import Config, read_flag, read_integer, read_string
from service.estimator.model.quantization.fields import (
    FIELD,
    is_fp8_cache,
    parse_block,
    read_group_size,
    read_names,
)
from service.estimator.model.weights.scheme import Packing, Scheme, join_formats
from service.estimator.values.errors import InvalidConfigError, NotModelledError

_CLASS = "Linear"
"""Of all modules that are quantised."""
_NV_GROUP = 16
_BLOCKS: Mapping[str, Packing] = MappingProxyType(
    {
        "nvfp4-pack-quantized": Packing.NVFP4,
        "mxfp4-pack-quantized": Packing.MX_BLOCKS,
        "mxfp8-quantized": Packing.MX_BLOCKS,
    }
)


def read_compressed_tensors(config: Config) -> Scheme:
    """Read a compressed-tensors config.

    The weights of a group are packed integers, 8-bit integers, fp8, or blocks of nvfp4 or mxfp4;
    those of several groups are a mixture, told apart by modules' names. Raises NotModelledError for
    other formats.
    """
    groups = config.get("config_groups")
    rules = list(groups.values()) if isinstance(groups, Mapping) else []
    formats = [_read_group(rule, read_string(config, "format", "dense")) for rule in rules]
    if not formats or sum(not scheme.only for scheme in formats) > 1:
        feature = "compressed-tensors without a group, or with several for every Linear"
        raise NotModelledError(
            feature, field=f"{FIELD}.config_groups", modelled=["one group for every Linear"]
        )
    return replace(
        join_formats(formats),
        kept=read_names(config, "ignore") or (),
        head=True,
        fp8_cache=is_fp8_cache(config.get("kv_cache_scheme")),
    )


def _read_group(rule: object, layout: str) -> Scheme:
    """Return the format of a group, with its targets."""
    if not isinstance(rule, Mapping) or not isinstance(rule.get("weights"), Mapping):
        message = f"{FIELD}.config_groups has {rule!r}; a group is an object with 'weights'"
        raise InvalidConfigError(message, field=f"{FIELD}.config_groups")
    inputs = rule.get("input_activations")
    scheme = _read_weights(
        read_string(rule, "format", layout),
        rule["weights"],
        inputs if isinstance(inputs, Mapping) else None,
    )
    targets = read_names(rule, "targets") or (_CLASS,)
    return scheme if _CLASS in targets else replace(scheme, only=targets)


def _read_weights(layout: str, weights: Config, inputs: Config | None) -> Scheme:
    """Return how one matrix is stored."""
    if layout in _BLOCKS:
        small = _BLOCKS[layout] is Packing.NVFP4
        return Scheme(
            packing=_BLOCKS[layout],
            bits=read_integer(weights, "num_bits", 4),
            group_size=_NV_GROUP if small else None,
            static_inputs=small and inputs is not None,
        )
    if layout == "pack-quantized":
        return Scheme(
            packing=Packing.PACKED,
            bits=read_integer(weights, "num_bits", 4),
            group_size=read_group_size(weights, "group_size", None),
            zero_points=not read_flag(weights, "symmetric", default=True),
            group_index=weights.get("actorder") not in {None, False, "static", "weight"},
        )
    if (
        layout not in {"float-quantized", "int-quantized", "naive-quantized"}
        or weights.get("num_bits") != 8  # noqa: PLR2004 - bits of a byte
    ):
        modelled = [
            *("pack-quantized", "float-quantized and int-quantized with 8 bits"),
            *_BLOCKS,
        ]
        raise NotModelledError(
            f"compressed-tensors format {layout!r}", field=f"{FIELD}.format", modelled=modelled
        )
    strategy = weights.get("strategy")
    return Scheme(
        packing=Packing.FP8,
        bits=8,
        per_row=strategy == "channel",
        group_size=read_group_size(weights, "group_size", None) if strategy == "group" else None,
        block=parse_block(weights.get("block_structure")) if strategy == "block" else None,
        static_inputs=inputs is not None and not read_flag(inputs, "dynamic", default=False),
    )
