"""Formats of weights as libraries load them.

mxfp4 may be unpacked, and bitsandbytes may or may not reach experts.
"""

from dataclasses import replace

from service.estimator.model.architecture import Architecture
from service.estimator.model.heads.classes import list_classes
from service.estimator.model.heads.decoders import put_task_head
from service.estimator.model.library_versions import has_stacked_experts
from service.estimator.model.weights.scheme import Packing, Scheme, Scope
from service.estimator.model.weights.unpacked import UnpackedWeights
from service.estimator.values.dtypes import DType
from service.estimator.values.heads import Head
from service.estimator.values.losses import Trainer
from service.estimator.values.workload import (
    Engine,
    Framework,
    Method,
    Quantization,
    ServeWorkload,
    TrainWorkload,
    Workload,
)

_ADOPTING = frozenset({Engine.VLLM, Engine.SGLANG, Engine.TENSORRT_LLM})
_TRAINED = (
    "weights packed as mxfp4 are unpacked to be trained, and are counted so: what is packed gets "
    "no gradient (transformers, Mxfp4Config(dequantize=True))"
)
_SERVED = (
    "transformers unpacks mxfp4 unless triton 3.4 and kernels are installed, and it is counted so: "
    "quantization mxfp4 says that they are"
)
_READ_GGUF = (
    "transformers unpacks a GGUF file while loading it, as GgufConfig(dequantize=True) says and as "
    "it does without the kernels that read blocks, and it is counted so, in the workload's number "
    "format; engine llama_cpp keeps the file's types"
)
LEFT_EXPERTS = (
    "bitsandbytes quantises linear layers: transformers 5 stacks experts as bare parameters, which "
    "stay in 16 bits; releases before 5.0 quantised them too"
)
"""github.com/bitsandbytes-foundation/bitsandbytes, number 1849."""


def as_loaded(model: Architecture, workload: Workload) -> Architecture:
    """Return a model as its framework or engine loads it.

    What was unpacked for another workload is taken as its checkpoint stores it. Every other format,
    and mxfp4 on serving engines, stays packed. transformers 5.23,
    ``quantizer_mxfp4.py``: ``is_trainable`` and ``validate_environment``.
    """
    if isinstance(workload, TrainWorkload) and workload.trainer is Trainer.REWARD:
        model = _with_score(model)
    reason, unpacked = explain_unpacking(model, workload), model.unpacked
    if reason == (None if unpacked is None else unpacked.reason):
        return model
    stored = model if unpacked is None else unpacked
    quantization, gguf = stored.quantization, stored.gguf
    if reason is None:
        return replace(model, quantization=quantization, gguf=gguf, unpacked=None)
    return replace(
        model,
        quantization=None,
        gguf=None,
        unpacked=UnpackedWeights(reason=reason, quantization=quantization, gguf=gguf),
    )


def explain_unpacking(model: Architecture, workload: Workload) -> str | None:
    """Return the reason why a workload's library unpacks a checkpoint.

    None where its weights stay as they are, or are refused. The checkpoint may have been unpacked
    for another workload.
    """
    stored = model if model.unpacked is None else model.unpacked
    if stored.gguf is not None:
        return _READ_GGUF if _unpacks_gguf(workload) else None
    scheme = stored.quantization
    if scheme is None or scheme.packing is not Packing.MXFP4:
        return None
    return _explain_unpacked_blocks(workload)


def _unpacks_gguf(workload: Workload) -> bool:
    """Return whether a GGUF file is unpacked.

    What would quantise it anew is left to the rules, which refuse it: transformers 5.23,
    ``quantizers/auto.py`` (``get_hf_quantizer``).
    """
    if isinstance(workload, TrainWorkload):
        return workload.framework is Framework.TRANSFORMERS and workload.method is not Method.QLORA
    return workload.engine is Engine.TRANSFORMERS and workload.quantization is Quantization.NONE


def _with_score(model: Architecture) -> Architecture:
    """Return a language model with a head of one score.

    It is left alone where transformers has no such class.
    """
    family = model.spec.family
    if model.task is not None or Head.SEQUENCE_CLASSIFICATION not in list_classes(family).values():
        return model
    if not model.generates:
        return model
    head = {"head": Head.SEQUENCE_CLASSIFICATION.value, "num_labels": 1}
    spec = replace(model.spec, tie_word_embeddings=False, **head)  # type: ignore[arg-type]  # by the names of the fields
    return put_task_head(replace(model, spec=spec))


def _explain_unpacked_blocks(workload: Workload) -> str | None:
    """Return the reason why mxfp4 is unpacked.

    None where it stays, or is refused.
    """
    if isinstance(workload, ServeWorkload):
        packed = (
            workload.engine is not Engine.TRANSFORMERS
            or workload.quantization is not Quantization.NONE
        )
        return None if packed else _SERVED
    return None if workload.method is Method.QLORA else _TRAINED


def adapt_to_engine(scheme: Scheme | None) -> Scheme | None:
    """Return a scheme as vLLM and SGLang load it.

    Experts are in 4 bits too (``BitsAndBytesMoEMethod``), which has none for 8.
    """
    if scheme is None or scheme.packing is not Packing.BLOCKS_4BIT:
        return scheme
    return replace(scheme, scope=Scope.ALL)


def adopt_cache_format(model: Architecture, workload: Workload) -> Workload:
    """Return a workload with the cache of its checkpoint.

    ``kv_cache_dtype auto`` is fp8 where the checkpoint has scales of keys and values: vLLM 0.33.0,
    ``utils/torch_utils.py`` (``resolve_kv_cache_dtype_string``); SGLang 0.5.23,
    ``mem_cache/kv_cache_dtype.py``.
    """
    scheme = model.quantization
    if (
        scheme is None
        or not scheme.fp8_cache
        or not isinstance(workload, ServeWorkload)
        or workload.engine not in _ADOPTING
    ):
        return workload
    return replace(workload, kv_cache_dtype=DType.FP8)


def adapt_to_release(scheme: Scheme | None, version: str | None) -> Scheme | None:
    """Return a scheme as a release of transformers loads it.

    Experts were linear layers, which any loader quantised.
    """
    if scheme is None or scheme.scope is not Scope.LINEARS or has_stacked_experts(version):
        return scheme
    return replace(scheme, scope=Scope.ALL)


def has_unquantised_experts(model: Architecture, scheme: Scheme | None) -> bool:
    """Return whether a scheme leaves a model's experts unquantised."""
    return scheme is not None and scheme.scope is Scope.LINEARS and bool(model.spec.num_experts)
