"""Bytes of the weights that a serving replica keeps."""

from service.estimator.backends.transformers.release import TransformersRelease
from service.estimator.model.architecture import Architecture
from service.estimator.model.quantization.weights import weight_bytes
from service.estimator.model.weights.packing import packed_bytes
from service.estimator.model.weights.scheme import Packing, Scheme
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import ServeWorkload


def count_stored_weight_bytes(
    model: Architecture,
    workload: ServeWorkload,
    release: TransformersRelease,
    scheme: Scheme | None,
) -> int:
    """Return the bytes of weights and buffers, quantised by the scheme."""
    dtype = workload.weight_dtype
    weights = (
        model.weight_bytes(dtype) if scheme is None else weight_bytes(model, scheme, dtype).total
    )
    if scheme is not None and release.has_fused_awq(scheme, workload.cache):
        merged_bytes = (
            0 if release.frees_fused_projections else merged_projection_bytes(model, scheme, dtype)
        )
        return weights + model.buffer_bytes_in(dtype) + merged_bytes
    return (
        weights
        + model.buffer_bytes_in(dtype)
        + release.table_bytes(model, dtype)
        + _dequantizing_buffer_bytes(model, scheme)
    )


def merged_projection_bytes(model: Architecture, scheme: Scheme, dtype: DType) -> int:
    """Return the bytes of merged query, key and value projections.

    The merged one is beside the three that it was made of (AutoAWQ 0.1).
    """
    layers = (
        (layer, count)
        for block, count in model.blocks
        for layer in block.linears()
        if layer.target in {"q_proj", "k_proj", "v_proj"}
    )
    return sum(
        packed_bytes(projection.out_features, projection.in_features, scheme, dtype).total * count
        for projection, count in layers
    )


def count_untied_head_bytes(
    model: Architecture, release: TransformersRelease, scheme: Scheme | None, dtype: DType
) -> int:
    """Return the bytes of a head loaded beside its table.

    AutoAWQ until 0.2.6 wrote both (``save_quantized``, ``shard_checkpoint``), and until
    transformers 5 both were loaded before ``tie_weights`` drops one. Rotary tables, which no
    checkpoint has, come to the GPU after that (``dispatch_model``).
    """
    if scheme is None or not model.tied or not release.loads_tied_heads(scheme):
        return 0
    head = model.vocab_size * model.spec.hidden_size * dtype.bytes_per_element
    return max(0, head - release.table_bytes(model, dtype))


def _dequantizing_buffer_bytes(model: Architecture, scheme: Scheme | None) -> int:
    """Return the bytes of ExLlama's dequantisation buffer.

    Its kernels make the largest weight whole in it (auto_gptq 0.7, ``temp_dq``).
    """
    if scheme is None or scheme.packing is not Packing.GPTQ:
        return 0
    sizes_of = (
        layer.in_features * layer.out_features
        for block, _ in model.blocks
        for layer in block.linears()
    )
    return max(sizes_of, default=0) * DType.FP16.bytes_per_element
