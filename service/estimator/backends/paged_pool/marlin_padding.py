"""Padding of mxfp4 experts to tiles of Marlin's kernel in vLLM.

They are padded with zeros to full tiles. vLLM 0.19.0, ``quantization/mxfp4.py`` and
``fused_moe/layer.py``: inner features to 128, hidden size to 256. Triton's kernel, which a Hopper
runs where it is installed, pads less: 64.38 against 65.97 GiB of gpt-oss-120b.
"""

from dataclasses import replace

from service.estimator.model.quantization.weights import WeightPlacement
from service.estimator.values.units import ceil_div

_INNER, _HIDDEN = 128, 256
_GATE_AND_UP = 2


def pad_to_tiles(placement: WeightPlacement) -> WeightPlacement:
    """Return a stack of packed experts with padded sides.

    Anything else is returned as it is.
    """
    if not placement.is_stack or not placement.num_packed or placement.weight.transposed:
        return placement
    num, rows, columns = placement.weight.shape
    if placement.weight.name.endswith("gate_up_proj"):
        shape = (
            num,
            _GATE_AND_UP * _round_up(rows // _GATE_AND_UP, _INNER),
            _round_up(columns, _HIDDEN),
        )
    else:
        shape = (num, _round_up(rows, _HIDDEN), _round_up(columns, _INNER))
    return replace(placement, weight=replace(placement.weight, shape=shape))


def _round_up(size: int, multiple: int) -> int:
    return ceil_div(size, multiple) * multiple
