"""Experts in mxfp4 as vLLM holds them: padded with zeros to whole tiles of Marlin's kernel.

vLLM 0.19.0, ``quantization/mxfp4.py`` and ``fused_moe/layer.py``: inner features to 128, hidden size to 256. Triton's kernel,
which a Hopper runs where it is installed, pads less: 64.38 against 65.97 GiB of gpt-oss-120b.
"""

from dataclasses import replace

from service.estimator.model.quantization.weights import Placed
from service.estimator.values.units import ceil_div

_INNER, _HIDDEN = 128, 256
_GATE_AND_UP = 2


def tiled(placed: Placed) -> Placed:
    """Return a stack of packed experts with padded sides, and anything else as it is."""
    if not placed.is_stack or not placed.packed or placed.weight.transposed:
        return placed
    num, rows, columns = placed.weight.shape
    if placed.weight.name.endswith("gate_up_proj"):
        shape = (num, _GATE_AND_UP * _up(rows // _GATE_AND_UP, _INNER), _up(columns, _HIDDEN))
    else:
        shape = (num, _up(rows, _HIDDEN), _up(columns, _INNER))
    return replace(placed, weight=replace(placed.weight, shape=shape))


def _up(size: int, multiple: int) -> int:
    return ceil_div(size, multiple) * multiple
