"""Optimizers that DeepSpeed's file names."""

import json

import pytest

from tests.unit.formats.launches.importing import get_part, import_launch


@pytest.mark.parametrize(
    ("word", "optimizer"),
    [
        ("OneBitAdam", "onebit_adam"),
        ("ZeroOneAdam", "zero_one_adam"),
        ("OneBitLamb", "onebit_lamb"),
    ],
)
def test_an_optimizer_of_one_bit_is_deepspeeds(word: str, optimizer: str) -> None:
    """Its file says which; where it compresses first has no effect."""
    config = {"optimizer": {"type": word, "params": {"lr": 1e-4, "freeze_step": 400}}}

    imported = import_launch({"ds.json": json.dumps(config | {"fp16": {"enabled": True}})})

    assert get_part(imported, "workload")["optimizer"] == optimizer
    assert get_part(imported, "layout")["zero_stage"] == 0
