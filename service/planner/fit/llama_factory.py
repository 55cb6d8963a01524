"""The hardware table of LLaMA-Factory's README, all rows and columns."""

from collections.abc import Mapping
from dataclasses import dataclass

from service.estimator.values.memo import keep_latest
from service.estimator.values.optimizers import OptimizerName
from service.estimator.values.workload import Method, TrainWorkload

SIZES_B = (7, 14, 30, 70)
"""Billions of parameters of the table's columns; the last one is for x billion."""
SOURCE = "hiyouga/LLaMA-Factory ff6d4d1, README.md, Hardware Requirement"
_PURE_BYTES = 8
_MOST_OF_A_FREEZE = 0.5
"""Of the parameters that freeze-tuning trains: some of the last layers."""
_NEAREST = 0.1
"""By how much a model's parameters may differ from the size that it is sold as."""
_GB = 10**9
_LOW_RANK_STEPS = frozenset({OptimizerName.GALORE_ADAMW, OptimizerName.APOLLO})


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """One row, in GB of models and per billion parameters."""

    method: str
    bits: int
    gb: tuple[int, int, int, int]
    gb_per_billion: float
    formula: str

    def estimate_bytes(self, num_parameters: int) -> int:
        """Return the bytes of the column of a model's size."""
        column = find_column(num_parameters)
        if column is None:
            return int(num_parameters * self.gb_per_billion)
        return self.gb[column] * _GB

    def quote(self) -> str:
        """Return the row as the README has it."""
        named = ", ".join(f"{gb}GB for {size}B" for size, gb in zip(SIZES_B, self.gb, strict=True))
        return f"{self.method}, {self.bits} bits: {named}, {self.formula}GB for xB"


_FULL = TableRow(
    method="Full (bf16 or fp16)",
    bits=32,
    gb=(120, 240, 600, 1200),
    gb_per_billion=18,
    formula="18x",
)
_PURE = TableRow(
    method="Full (pure_bf16)", bits=16, gb=(60, 120, 300, 600), gb_per_billion=8, formula="8x"
)
_ADAPTED = TableRow(
    method="Freeze/LoRA/GaLore/APOLLO/BAdam/OFT",
    bits=16,
    gb=(16, 32, 64, 160),
    gb_per_billion=2,
    formula="2x",
)
_QUANTISED: Mapping[int, TableRow] = {
    8: TableRow(method="QLoRA / QOFT", bits=8, gb=(10, 20, 40, 80), gb_per_billion=1, formula="x"),
    4: TableRow(
        method="QLoRA / QOFT", bits=4, gb=(6, 12, 24, 48), gb_per_billion=0.5, formula="x/2"
    ),
    2: TableRow(
        method="QLoRA / QOFT", bits=2, gb=(4, 8, 16, 24), gb_per_billion=0.25, formula="x/4"
    ),
}
ROWS = (_FULL, _PURE, _ADAPTED, *_QUANTISED.values())


@keep_latest(256)
def find_column(num_parameters: int) -> int | None:
    """Return the column of a model's size.

    A 7B has 6.7e9 to 7.6e9 parameters, a 30B up to 33e9. None between them, where the README says
    GB for x billion.
    """
    billions = num_parameters / 10**9
    nearest = min(range(len(SIZES_B)), key=lambda index: abs(SIZES_B[index] - billions))
    is_near = abs(SIZES_B[nearest] - billions) <= _NEAREST * SIZES_B[nearest]
    return nearest if is_near else None


def find_row(
    workload: TrainWorkload, *, trained: float, packed_bits: int | None
) -> TableRow | None:
    """Return the row of a training run.

    None where the table has none. ``trained`` is the share of the parameters that is trained,
    ``packed_bits`` are those of a config that packs its weights.
    """
    match workload.method:
        case Method.FULL:
            if workload.optimizer in _LOW_RANK_STEPS or trained <= _MOST_OF_A_FREEZE:
                return _ADAPTED
            return _PURE if workload.precision.bytes_per_param <= _PURE_BYTES else _FULL
        case Method.LORA:
            return _ADAPTED if packed_bits is None else _QUANTISED.get(packed_bits)
        case Method.QLORA:
            return _QUANTISED.get(packed_bits or workload.quantization_bits)
        case Method.PEFT:
            return None
