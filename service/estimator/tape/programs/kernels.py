"""Kernels of recorded operators."""

from service.estimator.tape.nodes import Work

ATTENTIONS = frozenset(
    {
        "aten._scaled_dot_product_flash_attention.default",
        "aten._scaled_dot_product_efficient_attention.default",
        "aten._scaled_dot_product_cudnn_attention.default",
    }
)
"""Operators of fused attention (ATen ``native_functions.yaml``)."""
_WORKS = {
    "aten.mm.default": Work.PRODUCT,
    "aten.addmm.default": Work.PRODUCT,
    "aten._grouped_mm.default": Work.PRODUCT,
    "aten.bmm.default": Work.BATCHED,
    "aten.baddbmm.default": Work.BATCHED,
    "aten.native_layer_norm.default": Work.FUSED,
    "aten.native_group_norm.default": Work.FUSED,
    "aten._fused_rms_norm.default": Work.FUSED,
    "aten.silu.default": Work.FUSED,
    **dict.fromkeys(ATTENTIONS, Work.ATTENTION),
}


def get_work(operator: str) -> Work:
    """Return the kernels of an operator.

    Where none are known it is one, as long as what it moves.
    """
    return _WORKS.get(operator, Work.MOVE)
