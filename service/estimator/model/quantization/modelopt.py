"""Reader of ModelOpt's configs, in a config.json or as ``hf_quant_config.json``.

ModelOpt 0.47 writes them (``export/quant_utils.py``); vLLM 0.33.0 reads them
(``quantization/modelopt.py``), from which the patterns of excluded modules are: shell patterns, and
parts of names.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import translate
from types import MappingProxyType

from service.estimator.model.config_reader import Config
from service.estimator.model.quantization.fields import (
    FIELD,
    FP32_BYTES,
    is_fp8_cache,
    read_group_size,
    read_names,
)
from service.estimator.model.weights.scheme import Packing, Scheme, join_formats
from service.estimator.values.errors import InvalidConfigError, NotModelledError

_ALGORITHM = "quant_algo"
_MIXED = "MIXED_PRECISION"
_EXPERT = re.compile(r"\.experts\.\d+\.")
"""An expert of a layer, by its number."""
_GATED = re.compile(r"(?<=\.)(?:gate|up)_proj$")
"""The halves of what transformers stacks as ``gate_up_proj``."""
_SCHEMES: Mapping[str, Scheme] = MappingProxyType(
    {
        "FP8": Scheme(packing=Packing.FP8, bits=8, scale_bytes=FP32_BYTES, static_inputs=True),
        "FP8_PER_CHANNEL_PER_TOKEN": Scheme(
            packing=Packing.FP8, bits=8, scale_bytes=FP32_BYTES, per_row=True
        ),
        "FP8_PB_WO": Scheme(packing=Packing.FP8, bits=8, scale_bytes=FP32_BYTES, block=(128, 128)),
        "NVFP4": Scheme(packing=Packing.NVFP4, group_size=16, static_inputs=True),
        "W4A16_NVFP4": Scheme(packing=Packing.NVFP4, group_size=16),
        "MXFP8": Scheme(packing=Packing.MX_BLOCKS, bits=8),
    }
)


def is_modelopt(config: Config) -> bool:
    """Return whether a config is a ``hf_quant_config.json``."""
    nested = config.get("quantization")
    return isinstance(nested, Mapping) and _ALGORITHM in nested


def read_modelopt(config: Config) -> Scheme:
    """Return the scheme of a ModelOpt config.

    Raises NotModelledError for algorithms without a term. One of each layer
    (``MIXED_PRECISION``) is a mixture.
    """
    nested = config.get("quantization")
    quantization: Config = nested if isinstance(nested, Mapping) else config
    layers = quantization.get("quantized_layers")
    is_mixed = str(quantization.get(_ALGORITHM)).upper() == _MIXED
    scheme = (
        _read_mixture(layers)
        if is_mixed and isinstance(layers, Mapping) and layers
        else _read_format(quantization, FIELD)
    )
    excluded = (
        read_names(quantization, "ignore") or read_names(quantization, "exclude_modules") or ()
    )
    cache = str(quantization.get("kv_cache_quant_algo")).upper()
    return replace(
        scheme,
        head=True,
        kept=tuple(_make_pattern(name) for name in excluded),
        fp8_cache=cache == "FP8" or is_fp8_cache(quantization.get("kv_cache_scheme")),
    )


def _read_mixture(layers: Mapping[str, object]) -> Scheme:
    """Return the formats of modules, each with their names.

    Experts are named one by one, and are one tensor here.
    """
    names: defaultdict[Scheme, dict[str, None]] = defaultdict(dict)
    for name, rule in layers.items():
        if not isinstance(rule, Mapping):
            message = f"{FIELD}.quantized_layers.{name} is {rule!r}; it must be an object"
            raise InvalidConfigError(message, field=f"{FIELD}.quantized_layers")
        scheme = _read_format(rule, f"{FIELD}.quantized_layers")
        names[scheme] |= dict.fromkeys(_list_stacked_names(name))
    return join_formats(replace(scheme, only=tuple(names[scheme])) for scheme in names)


def _list_stacked_names(name: str) -> tuple[str, ...]:
    """Return what a module is called where experts are stacked."""
    stacked, num_experts = _EXPERT.subn(".experts.", name)
    gated = _GATED.sub("gate_up_proj", stacked)
    return (stacked, gated) if num_experts and gated != stacked else (stacked,)


def _read_format(config: Config, field: str) -> Scheme:
    """Return the scheme of one algorithm."""
    algorithm = str(config.get(_ALGORITHM)).upper()
    if algorithm not in _SCHEMES:
        raise NotModelledError(
            f"{_ALGORITHM} {config.get(_ALGORITHM)!r}",
            field=f"{field}.{_ALGORITHM}",
            modelled=tuple(_SCHEMES),
        )
    scheme = _SCHEMES[algorithm]
    if scheme.packing is not Packing.NVFP4:
        return scheme
    return replace(
        scheme, group_size=read_group_size(config, "group_size", None) or scheme.group_size
    )


def _make_pattern(name: str) -> str:
    """Return a pattern of full names.

    The name is a shell pattern, or a part of names anywhere.
    """
    return f"re:{translate(name)}" if "*" in name else f"re:.*{re.escape(name)}"
