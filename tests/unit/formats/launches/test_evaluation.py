"""What an evaluation between steps says of a launch."""

import pytest

from tests.unit.formats.launches.importing import import_launch

TRAIN = "train.py --model_name_or_path meta-llama/Llama-3.1-8B --bf16 --max_length 2048"


@pytest.mark.parametrize(
    ("options", "evaluates"),
    [
        ("--per_device_train_batch_size 2 --eval_strategy steps", "runs 8 sequences"),
        ("--per_device_train_batch_size 8 --eval_strategy epoch", None),
        ("--per_device_train_batch_size 2 --eval_strategy no", None),
        ("--per_device_train_batch_size 2", None),
        (
            "--per_device_train_batch_size 2 --eval_strategy no --per_device_eval_batch_size 4",
            "runs 4 sequences",
        ),
        ("--per_device_train_batch_size 4 --per_device_eval_batch_size 2", None),
    ],
)
def test_a_larger_batch_than_training_has_is_warned_of(options: str, evaluates: str | None) -> None:
    """By its own size, or by transformers' default where something is evaluated."""
    imported = import_launch(command=f"torchrun {TRAIN} {options}")

    told = [warning for warning in imported.warnings if "evaluation" in warning]
    assert [evaluates in warning for warning in told if evaluates] == [True] * bool(evaluates)
    assert len(told) == bool(evaluates)
