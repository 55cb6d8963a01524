"""Bytes of packed weights that a product of many rows has unpacked first."""

import pytest

from service.catalog.models import load_architecture, resolve_model
from service.estimator.model.weights.scheme import Packing, Scheme
from service.estimator.speed.work import count_forward_work, count_unpacked_bytes
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Attention

_NF4, _GPTQ = Scheme(packing=Packing.BLOCKS_4BIT), Scheme(packing=Packing.GPTQ)
_DENSE, _MIXTURE = (
    count_forward_work(
        load_architecture(resolve_model(name)), dtype=DType.BF16, attention=Attention.SDPA
    )
    for name in ("llama-3.2-1b", "olmoe-1b-7b")
)


@pytest.mark.parametrize(
    ("scheme", "packed_rows"),
    [
        (_NF4, 1),
        (_GPTQ, 7),
        (Scheme(packing=Packing.GPTQ, bits=8), 4096),
        (Scheme(packing=Packing.AWQ), 4096),
        (None, 4096),
    ],
)
def test_few_rows_are_multiplied_with_packed_weights(
    scheme: Scheme | None, packed_rows: int
) -> None:
    """One more than a kernel for few rows takes has all of the layers' weights in 16 bits."""
    packed, unpacked = (
        count_unpacked_bytes(_DENSE, scheme, rows, DType.BF16)
        for rows in (packed_rows, packed_rows + 1)
    )

    assert packed == 0
    assert unpacked == (2 * _DENSE.block_weights if packed_rows < 4096 else 0)


def test_experts_are_not_packed() -> None:
    """Bitsandbytes packs linear layers, and stacks of experts are none: attention has four."""
    unpacked = count_unpacked_bytes(_MIXTURE, _NF4, 64, DType.BF16)

    assert unpacked == 2 * 16 * (4 * 2048**2 + 64 * 2048)
