"""Registry of model families by ``model_type``.

A family's module is loaded when it is needed.
"""

import copyreg
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from importlib import import_module
from types import ModuleType

from service.estimator.model.architecture import Architecture
from service.estimator.model.config_reader import put_known_model_type
from service.estimator.model.heads.config import add_head, check_head, read_head
from service.estimator.model.heads.decoders import put_task_head
from service.estimator.model.positions import add_scaling
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.trees.decoder import build_decoder
from service.estimator.model.weights.gguf_bytes import GgufBytes, read_gguf_bytes
from service.estimator.model.weights.scheme import Scheme, read_scheme
from service.estimator.model.weights.unpacked import UnpackedWeights
from service.estimator.values.errors import (
    InvalidConfigError,
    NotModelledError,
    UnknownModelTypeError,
)
from service.estimator.values.heads import Head

_Stored = tuple[Scheme | None, GgufBytes | None, UnpackedWeights | None]
_FAMILIES = {
    "arcee": "dense.llama_variants",
    "bart": "encoders.bart",
    "bamba": "ssm.bamba",
    "bert": "encoders.bert",
    "bloom": "gpt.bloom",
    "cohere": "dense.cohere",
    "cohere2": "dense.cohere",
    "camembert": "encoders.bert",
    "clip": "vision.clip",
    "codegen": "gpt.gptj",
    "deepseek_v2": "moe.deepseek",
    "deepseek_v3": "moe.deepseek",
    "deepseek_v32": "moe.sparse_latent",
    "distilbert": "encoders.bert",
    "electra": "encoders.electra",
    "exaone4": "dense.llama_variants",
    "falcon": "gpt.falcon",
    "falcon_h1": "ssm.falcon_h1",
    "falcon_mamba": "ssm.mamba",
    "gemma": "dense.gemma",
    "gemma2": "dense.gemma",
    "gemma3": "vision.gemma3",
    "gemma3_text": "dense.gemma",
    "glm": "dense.glm",
    "glm4": "dense.glm",
    "glm4_moe": "moe.configs",
    "glm_moe_dsa": "moe.sparse_latent",
    "gpt2": "gpt.gpt2",
    "gpt_bigcode": "gpt.gpt_bigcode",
    "gpt_neo": "gpt.gpt_neo",
    "gpt_neox": "gpt.gpt_neox",
    "gptj": "gpt.gptj",
    "gpt_oss": "moe.gpt_oss",
    "granite": "dense.granite",
    "granitemoe": "moe.configs",
    "granitemoehybrid": "ssm.granite_hybrid",
    "jamba": "ssm.jamba",
    "llama": "dense.llama",
    "llama4_text": "moe.llama4",
    "llava": "vision.llava",
    "ministral": "dense.ministral",
    "mamba": "ssm.mamba",
    "mbart": "encoders.bart",
    "mamba2": "ssm.mamba2",
    "mistral": "dense.llama",
    "mistral3": "vision.mistral3",
    "modernbert": "encoders.modernbert",
    "mixtral": "moe.configs",
    "mpt": "gpt.mpt",
    "mt5": "encoders.t5",
    "nemotron": "dense.nemotron",
    "nemotron_h": "ssm.nemotron_h",
    "olmo": "dense.olmo",
    "olmo2": "dense.olmo",
    "olmo3": "dense.olmo",
    "olmoe": "moe.configs",
    "opt": "gpt.opt",
    "phi": "dense.phi",
    "phi3": "dense.phi",
    "phimoe": "moe.phimoe",
    "qwen2": "dense.qwen",
    "qwen2_5_vl": "vision.qwen_vl",
    "qwen2_moe": "moe.configs",
    "qwen2_vl": "vision.qwen_vl",
    "qwen3": "dense.qwen",
    "qwen3_moe": "moe.configs",
    "qwen3_next": "ssm.qwen3_next",
    "roberta": "encoders.bert",
    "seed_oss": "dense.llama_variants",
    "smollm3": "dense.smollm3",
    "stablelm": "dense.stablelm",
    "starcoder2": "dense.starcoder2",
    "t5": "encoders.t5",
    "vit": "vision.vit",
    "whisper": "encoders.whisper",
    "xlm-roberta": "encoders.bert",
    "zamba2": "ssm.zamba2",
}
"""model_type → module of this package, whose function has its name, with underscores."""

MAX_LAYERS = 512
"""Maximum layers of one stack, four times the deepest's: the allocator is replayed by layer."""
_DEPTHS = frozenset(
    (
        "decoder_layers",
        "depth",
        "encoder_layers",
        "n_layer",
        "n_layers",
        "num_decoder_layers",
        "num_encoder_layers",
        "num_hidden_layers",
        "num_layers",
    ),
)

_STORED = frozenset({"quantization", "gguf"})  # beside the numbers of a family
SCALED = "scaled"
"""Family of a synthetic model of which only the size is known; no config.json has it."""


def list_model_types() -> tuple[str, ...]:
    """List every ``model_type`` that can be read, sorted."""
    return tuple(sorted(_FAMILIES))


def get_family_group(model_type: str) -> str:
    """Return the kind of a family, such as ``moe``."""
    return _FAMILIES[model_type].partition(".")[0]


def architecture_from_config(config: Mapping[str, object]) -> Architecture:
    """Return the architecture of a Hugging Face config.json.

    Raises UnknownModelTypeError, InvalidConfigError for missing or contradictory fields,
    NotModelledError for a known ``model_type`` with a switch that has no term yet.
    """
    config = put_known_model_type(config)
    model_type = config.get("model_type")
    if not isinstance(model_type, str):
        message = "config lacks 'model_type', which says how to read it"
        raise InvalidConfigError(message, field="model_type")
    if model_type not in _FAMILIES:
        raise UnknownModelTypeError(model_type, list_model_types())
    check_depth(config)
    module = _load_family(model_type)
    head = read_head(config, getattr(module, "HEADS", ()))
    read_spec: Callable[[Mapping[str, object]], DecoderSpec] = getattr(
        module, model_type.replace("-", "_")
    )
    built = _build(module, add_head(add_scaling(read_spec(config), config), config, head))
    if config.get("quantization_config") is None:
        _check_nested_quantization(config)
        return built
    return replace(
        built,
        quantization=import_module(
            "service.estimator.model.quantization.configs"
        ).read_quantization(config),
    )


def _check_nested_quantization(config: Mapping[str, object]) -> None:
    """Refuse quantisation fields outside of ``quantization_config``.

    Some readers of a config.json find them, vLLM among them, and others do not.
    """
    nested = [(f"{name}.", part) for name, part in config.items() if isinstance(part, Mapping)]
    for prefix, part in [("", config), *nested]:
        for name in ("quantization_config", "compression_config"):
            if part.get(name) is not None:
                modelled = ["quantization_config, at the top of the config: move it there"]
                raise NotModelledError(
                    f"{prefix}{name}", field=f"{prefix}{name}", modelled=modelled
                )


def check_depth(config: Mapping[str, object]) -> None:
    """Refuse too many layers of a stack, and fewer than none.

    The stack may be the model's or that of a part of it.
    """
    for name, value in config.items():
        if isinstance(value, Mapping):
            check_depth(value)
        elif name in _DEPTHS and isinstance(value, int) and not 0 <= value <= MAX_LAYERS:
            bound = f"at most {MAX_LAYERS}" if value > 0 else "no fewer than 0"
            raise InvalidConfigError(f"{name} is {value}; {bound} layers are answered", field=name)


def _load_family(family: str) -> ModuleType:
    return import_module(f"service.estimator.model.families.{_FAMILIES[family]}")


def _build(module: ModuleType, spec: DecoderSpec) -> Architecture:
    """Return the module tree of a spec.

    It is built by the family's own ``build`` where it has one, else as a plain decoder, which a
    head of another task is put on.
    """
    build: Callable[[DecoderSpec], Architecture] = getattr(module, "build", build_decoder)
    check_head(spec)
    built = build(spec)
    # Families have classes of their own, and pickle looks each up by itself.
    copyreg.pickle(type(built), _reduce)
    return built if spec.head == Head.DEFAULT or built.task is not None else put_task_head(built)


def architecture_from_spec(spec: Mapping[str, object]) -> Architecture:
    """Return the architecture of our own specification.

    It is as ``Architecture.describe`` writes it.
    """
    family = spec.get("family")
    if not isinstance(family, str):
        message = "architecture lacks 'family', which says how to read it"
        raise InvalidConfigError(message, field="family")
    if "recording" in spec or (family not in _FAMILIES and family != SCALED):
        raise UnknownModelTypeError(family, list_model_types())
    check_depth(spec)
    module = _load_module(family)
    numbers = {name: value for name, value in spec.items() if name not in _STORED}
    built = _build(module, _read_spec(getattr(module, "SPEC", DecoderSpec), numbers))
    built = replace(built, gguf=read_gguf_bytes(spec.get("gguf"), built.num_hidden_layers))
    quantization = spec.get("quantization")
    if quantization is None:
        return built
    if not isinstance(quantization, Mapping):
        message = f"quantization is {quantization!r}; it must be an object, as GET shows it"
        raise InvalidConfigError(message, field="quantization")
    return replace(built, quantization=read_scheme(quantization))


def _reduce(model: Architecture) -> tuple[Callable[..., Architecture], tuple[object, ...]]:
    """Pickle the specification that a tree is built of.

    Its functions have no names that another process could find them by.
    """
    return _rebuild, (model.spec, (model.quantization, model.gguf, model.unpacked))


def _rebuild(spec: DecoderSpec, stored: _Stored) -> Architecture:
    quantization, gguf, unpacked = stored
    built = _build(_load_module(spec.family), spec)
    return replace(built, quantization=quantization, gguf=gguf, unpacked=unpacked)


# Models of which only the size is known are built elsewhere.
copyreg.pickle(Architecture, _reduce)


def _load_module(family: str) -> ModuleType:
    if family == SCALED:
        return import_module("service.estimator.model.families.synthetic")
    return _load_family(family)


def _read_spec(kind: type[DecoderSpec], spec: Mapping[str, object]) -> DecoderSpec:
    fields_by_name = {field.name: field for field in fields(kind)}
    unknown = sorted(set(spec) - set(fields_by_name))
    if unknown:
        message = f"unknown field {unknown[0]!r}; known: {', '.join(fields_by_name)}"
        raise InvalidConfigError(message, field=unknown[0])
    for name, value in spec.items():
        _check_type(name, value, str(fields_by_name[name].type))
    try:
        return kind(**spec)  # type: ignore[arg-type]  # names and types were checked above
    except TypeError as error:
        message = f"architecture is incomplete: {str(error).rpartition('missing ')[2]}"
        raise InvalidConfigError(message, field="architecture") from error


_TYPES: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "bool": (bool,),
    "float": (int, float),
}


def _check_type(name: str, value: object, declared: str) -> None:
    type_name, _, optional = declared.removeprefix("<class '").removesuffix("'>").partition(" | ")
    if value is None and optional:
        return
    if not isinstance(value, _TYPES[type_name]) or (
        isinstance(value, bool) and type_name != "bool"
    ):
        message = f"{name} is {value!r}; it must be of type {type_name}"
        raise InvalidConfigError(message, field=name)
