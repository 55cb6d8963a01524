"""How a checkpoint's own format is loaded: mxfp4 is unpacked by whoever trains it, and by transformers without its kernels."""

from dataclasses import replace

from service.estimator.architecture import Architecture
from service.estimator.quantization.scheme import Packing
from service.estimator.workload import Engine, Method, Quantization, ServeWorkload, Workload

_TRAINED = (
    "weights packed as mxfp4 are unpacked to be trained, and are counted so: what is packed gets no gradient "
    "(transformers, Mxfp4Config(dequantize=True))"
)
_SERVED = (
    "transformers unpacks mxfp4 unless triton 3.4 and kernels are installed, and it is counted so: "
    "quantization mxfp4 says that they are"
)


def as_loaded(model: Architecture, workload: Workload) -> Architecture:
    """Return a model as what runs it loads it: every other format, and mxfp4 on serving engines, stays packed.

    transformers 5.23, ``quantizer_mxfp4.py``: ``is_trainable`` and ``validate_environment``.
    """
    own = model.quantization
    if own is None or own.packing is not Packing.MXFP4 or (said := _unpacked(workload)) is None:
        return model
    return replace(model, quantization=None, unpacked=said)


def _unpacked(workload: Workload) -> str | None:
    """Return in words why mxfp4 is unpacked; None where it stays, or is refused."""
    if isinstance(workload, ServeWorkload):
        packed = workload.engine is not Engine.TRANSFORMERS or workload.quantization is not Quantization.NONE
        return None if packed else _SERVED
    return None if workload.method is Method.QLORA else _TRAINED
