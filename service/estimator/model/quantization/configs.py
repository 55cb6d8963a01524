"""Reads the ``quantization_config`` of a config.json: field names and defaults of transformers 5.23 and of what wrote them."""

from collections.abc import Callable, Mapping

from service.estimator.model.config_reader import Config, flag, integer, refuse, word
from service.estimator.model.weights.scheme import Packing, Scheme, Scope
from service.estimator.values.errors import InvalidConfigError, NotModelledError

FIELD = "quantization_config"
FP32_BYTES, EXPONENT_BYTES = 4, 1
_GPTQ_BITS = (2, 3, 4, 8)
_WHOLE_ROW = -1
_DEFAULT_GROUP = 128


def read_quantization(config: Config) -> Scheme | None:
    """Return the scheme of a config.json's weights, None where they are not quantised; refuse formats without a term."""
    found = config.get(FIELD)
    if found is None:
        return None
    if not isinstance(found, Mapping):
        message = f"{FIELD} is {found!r}; it must be an object"
        raise InvalidConfigError(message, field=FIELD)
    method = found.get("quant_method")
    if method is None and (flag(found, "load_in_4bit", default=False) or flag(found, "load_in_8bit", default=False)):
        method = "bitsandbytes"  # configs that were written before the field existed
    if not isinstance(method, str) or method not in _READERS:
        field = f"{FIELD}.quant_method"
        raise NotModelledError(f"quant_method {method!r}", field=field, modelled=tuple(sorted(_READERS)))
    refuse(found, "dequantize", modelled="dequantize: false")
    return _READERS[method](found)


def _bitsandbytes(config: Config) -> Scheme:
    """Read a ``BitsAndBytesConfig``; a list of skipped modules replaces the default one, which is the head."""
    skipped = _names(config, "llm_int8_skip_modules")
    kept = skipped if skipped is not None else ("lm_head",)
    in_4bit, in_8bit = (flag(config, name, default=False) for name in ("load_in_4bit", "load_in_8bit"))
    if in_4bit is in_8bit:
        said = "both" if in_4bit else "neither"
        message = f"bitsandbytes with {said} of load_in_4bit and load_in_8bit; exactly one of them must be true"
        raise InvalidConfigError(message, field=FIELD)
    if in_8bit:
        refuse(config, "llm_int8_has_fp16_weight", modelled="llm_int8_has_fp16_weight: false")
        return Scheme(packing=Packing.INT8_ROWS, bits=8, scope=Scope.LINEARS, head=True, kept=kept)
    return Scheme(
        packing=Packing.BLOCKS_4BIT,
        double=flag(config, "bnb_4bit_use_double_quant", default=False),
        scope=Scope.LINEARS,
        head=True,
        kept=kept,
    )


def _gptq(config: Config) -> Scheme:
    """Read a GPTQ config; rules for single modules (``dynamic``) have no term."""
    refuse(config, "dynamic", modelled="one rule for all modules")
    bits = integer(config, "bits")
    if bits not in _GPTQ_BITS:
        message = f"bits is {bits}; GPTQ packs {', '.join(map(str, _GPTQ_BITS))}"
        raise InvalidConfigError(message, field=f"{FIELD}.bits")
    return Scheme(
        packing=Packing.GPTQ,
        bits=bits,
        group_size=_group_size(config, "group_size"),
        head=flag(config, "lm_head", default=False),
        kept=_names(config, "modules_to_not_convert") or (),
    )


def _awq(config: Config) -> Scheme:
    """Read an AWQ config under either set of names (``bits``/``w_bit``, ``group_size``/``q_group_size``)."""
    bits = integer(config, "bits" if "bits" in config else "w_bit", 4)
    layout = word(config, "version" if "version" in config else "format", "gemm").lower()
    if bits != Scheme(packing=Packing.AWQ).bits or layout != "gemm":
        what = f"AWQ with {bits} bits in the {layout} layout"
        raise NotModelledError(what, field=FIELD, modelled=["4 bits in the gemm layout"])
    return Scheme(
        packing=Packing.AWQ,
        group_size=_group_size(config, "group_size" if "group_size" in config else "q_group_size"),
        zero_points=flag(config, "zero_point", default=True),
        kept=_names(config, "modules_to_not_convert") or (),
    )


def _fp8(config: Config) -> Scheme:
    """Read a fine-grained fp8 config: scales per rectangle, or one per tensor (``weight_block_size`` null)."""
    if word(config, "expert_dtype", "fp8") != "fp8":
        raise NotModelledError(f"expert_dtype {config['expert_dtype']!r}", field=f"{FIELD}.expert_dtype", modelled=["fp8"])
    kept = _names(config, "modules_to_not_convert") or _names(config, "ignored_layers") or ()
    return Scheme(
        packing=Packing.FP8,
        bits=8,
        block=_block(config),
        scale_bytes=EXPONENT_BYTES if config.get("scale_fmt") == "ue8m0" and "expert_dtype" in config else FP32_BYTES,
        static_inputs=word(config, "activation_scheme", "dynamic").lower() == "static",
        kept=kept,
    )


def _fbgemm(config: Config) -> Scheme:
    """Read an fbgemm config: fp32 scales per row (transformers ``FbgemmFp8Linear``)."""
    kept = _names(config, "modules_to_not_convert") or ()
    return Scheme(packing=Packing.FP8, bits=8, per_row=True, scale_bytes=FP32_BYTES, kept=kept)


def _mxfp4(config: Config) -> Scheme:
    """Read an mxfp4 config: the experts are packed, everything else stays."""
    kept = _names(config, "modules_to_not_convert") or ()
    return Scheme(packing=Packing.MXFP4, scope=Scope.EXPERTS, kept=kept)


def _hqq(config: Config) -> Scheme:
    """Read an HQQ config of one rule for all layers."""
    quant = config.get("quant_config")
    weights = quant.get("weight_quant_params") if isinstance(quant, Mapping) else None
    if not isinstance(weights, Mapping):
        raise NotModelledError("HQQ with rules for single modules", field=FIELD, modelled=["one rule for all layers"])
    return Scheme(
        packing=Packing.HQQ,
        bits=integer(weights, "nbits", 4),
        group_size=_group_size(weights, "group_size"),
        scope=Scope.LINEARS,
        kept=_names(config, "skip_modules") or ("lm_head",),
        head=True,
    )


def _compressed(config: Config) -> Scheme:
    """Read a compressed-tensors config of one group: packed integers, 8-bit integers or fp8."""
    groups = config.get("config_groups")
    rules = list(groups.values()) if isinstance(groups, Mapping) else []
    weights = rules[0].get("weights") if len(rules) == 1 and isinstance(rules[0], Mapping) else None
    if not isinstance(weights, Mapping) or rules[0].get("targets") not in (["Linear"], None):
        what = "compressed-tensors with rules for single modules"
        raise NotModelledError(what, field=f"{FIELD}.config_groups", modelled=["one group for every Linear"])
    layout = word(config, "format", "dense")
    kept = _names(config, "ignore") or ()
    if layout == "pack-quantized":
        return Scheme(
            packing=Packing.PACKED,
            bits=integer(weights, "num_bits", 4),
            group_size=_group_size(weights, "group_size", None),
            zero_points=not flag(weights, "symmetric", default=True),
            group_index=weights.get("actorder") not in {None, False, "static", "weight"},
            kept=kept,
            head=True,
        )
    if layout not in {"float-quantized", "int-quantized", "naive-quantized"} or weights.get("num_bits") != 8:  # noqa: PLR2004 - bits of a byte
        modelled = ["pack-quantized", "float-quantized and int-quantized with 8 bits"]
        raise NotModelledError(f"compressed-tensors format {layout!r}", field=f"{FIELD}.format", modelled=modelled)
    inputs = rules[0].get("input_activations")
    return Scheme(
        packing=Packing.FP8,
        bits=8,
        per_row=weights.get("strategy") == "channel",
        group_size=_group_size(weights, "group_size", None) if weights.get("strategy") == "group" else None,
        block=_pair(weights.get("block_structure")) if weights.get("strategy") == "block" else None,
        static_inputs=isinstance(inputs, Mapping) and not flag(inputs, "dynamic", default=False),
        kept=kept,
        head=True,
    )


_READERS: dict[str, Callable[[Config], Scheme]] = {
    "bitsandbytes": _bitsandbytes,
    "gptq": _gptq,
    "awq": _awq,
    "fp8": _fp8,
    "fbgemm_fp8": _fbgemm,
    "mxfp4": _mxfp4,
    "hqq": _hqq,
    "compressed-tensors": _compressed,
}


def _group_size(config: Config, name: str, default: int | None = _DEFAULT_GROUP) -> int | None:
    """Return a group size; -1 and null stand for the whole row."""
    if name in config and config[name] in {None, _WHOLE_ROW}:
        return None
    return integer(config, name, default) if default is not None or config.get(name) is not None else None


def _block(config: Config) -> tuple[int, int] | None:
    return _pair(config["weight_block_size"]) if "weight_block_size" in config else (_DEFAULT_GROUP, _DEFAULT_GROUP)


def _pair(value: object) -> tuple[int, int] | None:
    if value is None:
        return None
    match value:
        case [int(high), int(wide)] if high > 0 and wide > 0:
            return high, wide
        case _:
            message = f"the block of a scale is {value!r}; it must be two positive integers"
            raise InvalidConfigError(message, field=f"{FIELD}.weight_block_size")


def _names(config: Config, name: str) -> tuple[str, ...] | None:
    """Return a list of module names or patterns; None when it is absent or null."""
    value = config.get(name)
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        message = f"{FIELD}.{name} is {value!r}; it must be a list of strings"
        raise InvalidConfigError(message, field=f"{FIELD}.{name}")
    return tuple(value)
