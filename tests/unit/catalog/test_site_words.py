"""Sites' words for GPUs as SKUs."""

import pytest

from service.catalog.site_words import find_site_gpus


@pytest.mark.parametrize(
    ("words", "skus"),
    [
        ([("a100_80gb",)], {"A100-SXM4-80GB", "A100-PCIE-80GB"}),
        ([("a100-80",)], {"A100-SXM4-80GB", "A100-PCIE-80GB"}),
        ([("a100",), ("gpu80gb",)], {"A100-SXM4-80GB", "A100-PCIE-80GB"}),
        ([("ib",), ("h100-sxm",)], {"H100-SXM5-80GB"}),
        ([("v100s",)], {"V100S-PCIE-32GB"}),
        ([("v100-16",)], {"V100-SXM2-16GB", "V100-PCIE-16GB"}),
        ([("gpu_l40s",)], {"L40S"}),
        ([("t4", "l4")], {"T4", "L4"}),
        ([("nvidia-tesla-a100",)], {"A100-SXM4-40GB"}),
        ([("nvidia_h100_80gb_hbm3",), ("h100",)], {"H100-SXM5-80GB"}),
        ([("l4",), ("t4",)], {"L4", "T4"}),
        ([("titan",), ("skylake",), ("gpu",), ("80gb",)], set()),
    ],
)
def test_a_sites_word_means_gpus(words: list[tuple[str, ...]], skus: set[str]) -> None:
    """Words that all hold narrow each other; a size alone, and a CPU, mean no GPU."""
    assert set(find_site_gpus(words, None)) == skus


def test_slices_are_those_that_the_gpu_has() -> None:
    """A V100 is not cut."""
    assert find_site_gpus([("a100-sxm4-40gb", "v100")], "1g.5gb") == ("A100-SXM4-40GB/1g.5gb",)
