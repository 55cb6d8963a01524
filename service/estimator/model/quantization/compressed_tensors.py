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
from service.estimator.model.weights.scheme import Packing, Scheme
from service.estimator.values.errors import NotModelledError

_NV_GROUP = 16
_BLOCKS: Mapping[str, Packing] = MappingProxyType(
    {
        "nvfp4-pack-quantized": Packing.NVFP4,
        "mxfp4-pack-quantized": Packing.MX_BLOCKS,
        "mxfp8-quantized": Packing.MX_BLOCKS,
    }
)


def read_compressed_tensors(config: Config) -> Scheme:
    """Read a compressed-tensors config of one group.

    The weights are packed integers, 8-bit integers, fp8, or blocks of nvfp4 or mxfp4. Raises
    NotModelledError for rules of single modules and other formats.
    """
    groups = config.get("config_groups")
    rules = list(groups.values()) if isinstance(groups, Mapping) else []
    rule = rules[0] if len(rules) == 1 and isinstance(rules[0], Mapping) else {}
    weights, inputs = rule.get("weights"), rule.get("input_activations")
    if not isinstance(weights, Mapping) or rule.get("targets") not in (["Linear"], None):
        feature = "compressed-tensors with rules for single modules"
        raise NotModelledError(
            feature, field=f"{FIELD}.config_groups", modelled=["one group for every Linear"]
        )
    return replace(
        _read_weights(
            read_string(config, "format", "dense"),
            weights,
            inputs if isinstance(inputs, Mapping) else None,
        ),
        kept=read_names(config, "ignore") or (),
        head=True,
        fp8_cache=is_fp8_cache(config.get("kv_cache_scheme")),
    )


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
