"""Buffers of kernels: those that one H100 was seen to take, to the byte."""

import pytest

from service.catalog.gpus import find_gpus
from service.estimator.memory.allocator.kernel_buffers import (
    count_embedding_bytes,
    count_reduction_bytes,
    find_kernel_buffers,
)
from service.estimator.values.device import Device
from service.estimator.values.units import MIB

H100_PROCESSORS = 132


@pytest.mark.parametrize(
    ("outputs", "rows", "num_bytes"),
    [
        (8192, 2048, 134_217_728),
        (6144, 2048, 100_663_296),
        (768, 2048, 12_582_912),
        (1152, 2048, 18_874_368),
        (128, 8192, 8_388_608),
        (128, 4096, 4_194_304),
        (256, 8192, 16_777_216),
        (256, 2048, 4_194_304),
        (1024, 512, 0),
    ],
)
def test_partial_sums_are_those_that_were_read(outputs: int, rows: int, num_bytes: int) -> None:
    """Gradients of biases and norms of pythia-1b, gpt2, gemma-3-1b and qwen3-0.6b."""
    assert count_reduction_bytes(outputs, rows, H100_PROCESSORS) == num_bytes


@pytest.mark.parametrize(
    ("width", "indices", "table_rows", "num_bytes"),
    [
        (1024, 8192, 151_936, 36_909_056),
        (2048, 4096, 128_256, 36_904_960),
        (2048, 3072, 128_256, 0),
    ],
)
def test_sums_of_an_embedding_are_those_that_were_read(
    width: int, indices: int, table_rows: int, num_bytes: int
) -> None:
    """Few indices are summed in place; more are sorted first."""
    assert count_embedding_bytes(width, indices, table_rows) == num_bytes


def test_a_gpu_of_no_name_has_no_buffers() -> None:
    """Nothing is known of a card that is only a number of bytes."""
    card = Device(name="card", capacity_bytes=2**36, usable_bytes=2**36)

    assert find_kernel_buffers(card) is None


def test_hopper_has_larger_workspaces_and_cudnn() -> None:
    """32 MiB a handle from compute capability 9.0 on, 8 MiB and some before."""
    hopper, ampere = (
        find_kernel_buffers(find_gpus(name)[0].to_device())
        for name in ("H100-SXM5-80GB", "A100-SXM4-80GB")
    )

    assert hopper is not None
    assert ampere is not None
    assert (hopper.cublas_bytes, hopper.prefers_cudnn) == (32 * MIB, True)
    assert (ampere.cublas_bytes, ampere.prefers_cudnn) == (8_519_680, False)
