"""Reader of the ``quantization_config`` of a config.json.

Field names and defaults are those of transformers 5.23 and of what wrote them.
"""

from collections.abc import Callable, Mapping

from service.estimator.model.config_reader import (
    Config,
    read_flag,
    read_integer,
    read_string,
    refuse_field,
)
from service.estimator.model.quantization.compressed_tensors import read_compressed_tensors
from service.estimator.model.quantization.fields import (
    FIELD,
    FP32_BYTES,
    read_block,
    read_group_size,
    read_names,
)
from service.estimator.model.quantization.modelopt import is_modelopt, read_modelopt
from service.estimator.model.weights.scheme import Packing, Scheme, Scope
from service.estimator.values.errors import InvalidConfigError, NotModelledError

EXPONENT_BYTES = 1
_GPTQ_BITS = (2, 3, 4, 8)


def read_quantization(config: Config) -> Scheme | None:
    """Return the quantisation scheme of a config.json's weights.

    None where they are not quantised. Raises NotModelledError for formats without a term.
    """
    quantization = config.get(FIELD)
    if quantization is None:
        return None
    if not isinstance(quantization, Mapping):
        message = f"{FIELD} is {quantization!r}; it must be an object"
        raise InvalidConfigError(message, field=FIELD)
    method = quantization.get("quant_method")
    if method is None and (
        read_flag(quantization, "load_in_4bit", default=False)
        or read_flag(quantization, "load_in_8bit", default=False)
    ):
        method = "bitsandbytes"  # configs that were written before the field existed
    if method is None and is_modelopt(quantization):
        method = "modelopt"  # a hf_quant_config.json, which stands beside the config
    if not isinstance(method, str) or method not in _READERS:
        field = f"{FIELD}.quant_method"
        raise NotModelledError(
            f"quant_method {method!r}", field=field, modelled=tuple(sorted(_READERS))
        )
    refuse_field(quantization, "dequantize", modelled="dequantize: false")
    return _READERS[method](quantization)


def _read_bitsandbytes(config: Config) -> Scheme:
    """Read a ``BitsAndBytesConfig``.

    A list of skipped modules replaces the default one, which is the head.
    """
    skipped = read_names(config, "llm_int8_skip_modules")
    excluded = skipped if skipped is not None else ("lm_head",)
    in_4bit, in_8bit = (
        read_flag(config, name, default=False) for name in ("load_in_4bit", "load_in_8bit")
    )
    if in_4bit is in_8bit:
        switches = "both" if in_4bit else "neither"
        message = (
            f"bitsandbytes with {switches} of load_in_4bit and load_in_8bit; exactly one of them "
            "must be true"
        )
        raise InvalidConfigError(message, field=FIELD)
    if in_8bit:
        refuse_field(config, "llm_int8_has_fp16_weight", modelled="llm_int8_has_fp16_weight: false")
        return Scheme(
            packing=Packing.INT8_ROWS, bits=8, scope=Scope.LINEARS, head=True, kept=excluded
        )
    return Scheme(
        packing=Packing.BLOCKS_4BIT,
        double=read_flag(config, "bnb_4bit_use_double_quant", default=False),
        scope=Scope.LINEARS,
        head=True,
        kept=excluded,
    )


def _read_gptq(config: Config) -> Scheme:
    """Read a GPTQ config.

    Rules for single modules (``dynamic``) have no term.
    """
    refuse_field(config, "dynamic", modelled="one rule for all modules")
    bits = read_integer(config, "bits")
    if bits not in _GPTQ_BITS:
        message = f"bits is {bits}; GPTQ packs {', '.join(map(str, _GPTQ_BITS))}"
        raise InvalidConfigError(message, field=f"{FIELD}.bits")
    return Scheme(
        packing=Packing.GPTQ,
        bits=bits,
        group_size=read_group_size(config, "group_size"),
        head=read_flag(config, "lm_head", default=False),
        kept=read_names(config, "modules_to_not_convert") or (),
    )


def _read_awq(config: Config) -> Scheme:
    """Read an AWQ config under either set of names.

    These are ``bits``/``w_bit`` and ``group_size``/``q_group_size``.
    """
    bits = read_integer(config, "bits" if "bits" in config else "w_bit", 4)
    layout = read_string(config, "version" if "version" in config else "format", "gemm").lower()
    if bits != Scheme(packing=Packing.AWQ).bits or layout != "gemm":
        feature = f"AWQ with {bits} bits in the {layout} layout"
        raise NotModelledError(feature, field=FIELD, modelled=["4 bits in the gemm layout"])
    return Scheme(
        packing=Packing.AWQ,
        group_size=read_group_size(
            config, "group_size" if "group_size" in config else "q_group_size"
        ),
        zero_points=read_flag(config, "zero_point", default=True),
        kept=read_names(config, "modules_to_not_convert") or (),
    )


def _read_fp8(config: Config) -> Scheme:
    """Read a fine-grained fp8 config.

    Scales are per rectangle, or one per tensor (``weight_block_size`` null).
    """
    if read_string(config, "expert_dtype", "fp8") != "fp8":
        raise NotModelledError(
            f"expert_dtype {config['expert_dtype']!r}",
            field=f"{FIELD}.expert_dtype",
            modelled=["fp8"],
        )
    excluded = (
        read_names(config, "modules_to_not_convert") or read_names(config, "ignored_layers") or ()
    )
    return Scheme(
        packing=Packing.FP8,
        bits=8,
        block=read_block(config),
        scale_bytes=EXPONENT_BYTES
        if config.get("scale_fmt") == "ue8m0" and "expert_dtype" in config
        else FP32_BYTES,
        static_inputs=read_string(config, "activation_scheme", "dynamic").lower() == "static",
        kept=excluded,
    )


def _read_fbgemm(config: Config) -> Scheme:
    """Read an fbgemm config: fp32 scales per row (transformers ``FbgemmFp8Linear``)."""
    excluded = read_names(config, "modules_to_not_convert") or ()
    return Scheme(packing=Packing.FP8, bits=8, per_row=True, scale_bytes=FP32_BYTES, kept=excluded)


def _read_mxfp4(config: Config) -> Scheme:
    """Read an mxfp4 config: the experts are packed, everything else stays."""
    excluded = read_names(config, "modules_to_not_convert") or ()
    return Scheme(packing=Packing.MXFP4, scope=Scope.EXPERTS, kept=excluded)


def _read_hqq(config: Config) -> Scheme:
    """Read an HQQ config of one rule for all layers."""
    quant = config.get("quant_config")
    weights = quant.get("weight_quant_params") if isinstance(quant, Mapping) else None
    if not isinstance(weights, Mapping):
        raise NotModelledError(
            "HQQ with rules for single modules", field=FIELD, modelled=["one rule for all layers"]
        )
    return Scheme(
        packing=Packing.HQQ,
        bits=read_integer(weights, "nbits", 4),
        group_size=read_group_size(weights, "group_size"),
        scope=Scope.LINEARS,
        kept=read_names(config, "skip_modules") or ("lm_head",),
        head=True,
    )


_READERS: dict[str, Callable[[Config], Scheme]] = {
    "bitsandbytes": _read_bitsandbytes,
    "gptq": _read_gptq,
    "awq": _read_awq,
    "fp8": _read_fp8,
    "fbgemm_fp8": _read_fbgemm,
    "mxfp4": _read_mxfp4,
    "hqq": _read_hqq,
    "compressed-tensors": read_compressed_tensors,
    "modelopt": read_modelopt,
    "modelopt_fp4": read_modelopt,
    "modelopt_mxfp8": read_modelopt,
}
