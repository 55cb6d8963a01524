"""LLaMA-Factory's table is quoted as its README has it: every row and column."""

from dataclasses import replace

import pytest

from service.estimator.values.optimizers import OptimizerName
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import Lora, Method, TrainWorkload
from service.planner.fit.llama_factory import ROWS, find_column, find_row

README = """
| Full (`bf16` or `fp16`)             |  32  | 120GB | 240GB | 600GB | 1200GB | `18x`GB |
| Full (`pure_bf16`)                  |  16  |  60GB | 120GB | 300GB |  600GB |  `8x`GB |
| Freeze/LoRA/GaLore/APOLLO/BAdam/OFT |  16  |  16GB |  32GB |  64GB |  160GB |  `2x`GB |
| QLoRA / QOFT                        |   8  |  10GB |  20GB |  40GB |   80GB |   `x`GB |
| QLoRA / QOFT                        |   4  |   6GB |  12GB |  24GB |   48GB | `x/2`GB |
| QLoRA / QOFT                        |   2  |   4GB |   8GB |  16GB |   24GB | `x/4`GB |
"""
FULL = TrainWorkload(sequence_length=64)
ADAPTERS = replace(FULL, method=Method.LORA, lora=Lora())


def test_rows_are_those_of_the_readme() -> None:
    """Copied from README.md, "Hardware Requirement", columns 7B, 14B, 30B, 70B and xB."""
    lines = [
        [cell.strip().replace("`", "") for cell in line.strip("|").split("|")]
        for line in README.strip().splitlines()
    ]

    assert [
        [row.method, str(row.bits), *(f"{gb}GB" for gb in row.gb), f"{row.formula}GB"]
        for row in ROWS
    ] == lines


@pytest.mark.parametrize(
    ("workload", "method", "bits"),
    [
        (FULL, "Full (bf16 or fp16)", 32),
        (replace(FULL, precision=POLICIES["bf16"]), "Full (pure_bf16)", 16),
        (replace(FULL, optimizer=OptimizerName.GALORE_ADAMW), "Freeze/LoRA/GaLore", 16),
        (replace(FULL, optimizer=OptimizerName.APOLLO), "Freeze/LoRA/GaLore", 16),
        (ADAPTERS, "Freeze/LoRA/GaLore", 16),
        (replace(ADAPTERS, method=Method.QLORA), "QLoRA", 4),
        (replace(ADAPTERS, method=Method.QLORA, quantization_bits=8), "QLoRA", 8),
        (replace(ADAPTERS, method=Method.QLORA, quantization_bits=2), "QLoRA", 2),
    ],
)
def test_each_method_has_its_row(workload: TrainWorkload, method: str, bits: int) -> None:
    """GaLore and APOLLO train all weights and stand with the adapters; QLoRA has a row of each
    width.
    """
    row = find_row(workload, trained=1.0, packed_bits=None)

    assert row is not None
    assert row.method.startswith(method)
    assert row.bits == bits


def test_what_trains_less_than_half_is_a_freeze() -> None:
    """Freeze-tuning leaves most layers alone; a frozen vision tower is still full training."""
    freeze, full = (find_row(FULL, trained=share, packed_bits=None) for share in (0.1, 0.9))

    assert freeze is not None
    assert full is not None
    assert (freeze.bits, full.bits) == (16, 32)


def test_what_the_table_does_not_name_has_no_row() -> None:
    """IA³ stands in none, nor do adapters on weights of a width that it has not."""
    vectors = replace(FULL, method=Method.PEFT, peft="ia3")

    assert find_row(vectors, trained=1.0, packed_bits=None) is None
    assert find_row(ADAPTERS, trained=1.0, packed_bits=3) is None


@pytest.mark.parametrize(
    ("billions", "column", "gigabytes"),
    [(6.74, 0, 120), (7.62, 0, 120), (13.0, 1, 240), (32.8, 2, 600), (70.6, 3, 1200)],
)
def test_a_model_of_a_named_size_has_its_column(
    billions: float, column: int, gigabytes: int
) -> None:
    """The README says 120GB of a 7B, and 18x of any size would say 121 of llama-2-7b."""
    parameters = int(billions * 10**9)

    assert find_column(parameters) == column
    assert ROWS[0].estimate_bytes(parameters) == gigabytes * 10**9


@pytest.mark.parametrize("billions", [0.12, 1.5, 8.03, 22.0, 405.0])
def test_any_other_size_has_the_last_column(billions: float) -> None:
    """``18x`` GB for x billion parameters."""
    parameters = int(billions * 10**9)

    assert find_column(parameters) is None
    assert ROWS[0].estimate_bytes(parameters) == 18 * parameters
