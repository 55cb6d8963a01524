"""A change is said in the words of the contract, and only what differs is said."""

from dataclasses import replace

from service.estimator.layout import Layout, Sharding
from service.estimator.precision import POLICIES
from service.estimator.workload import Checkpointing, Lora, Method
from service.planner.changes import changes
from tests.unit.planner.builders import ONE_GPU, SHORT, ZERO_3


def test_equal_configurations_differ_in_nothing() -> None:
    """No difference, no words."""
    assert changes((SHORT, ONE_GPU), (replace(SHORT), replace(ONE_GPU))) == {}


def test_fields_of_workload_and_layout_stand_side_by_side() -> None:
    """Enums are their words, numbers themselves."""
    after = replace(SHORT, activation_checkpointing=Checkpointing.FULL)

    assert changes((SHORT, ONE_GPU), (after, ZERO_3)) == {
        "activation_checkpointing": "full",
        "data_parallel": 8,
        "zero_stage": 3,
        "sharding": "deepspeed",
    }


def test_adapters_and_precision_are_said_as_requests_say_them() -> None:
    """What the change says can be sent back."""
    after = replace(SHORT, method=Method.LORA, lora=Lora(targets=("q_proj",)), precision=POLICIES["bf16"])

    assert changes((SHORT, Layout()), (after, Layout(sharding=Sharding.DDP))) == {
        "method": "lora",
        "lora": {"rank": 16, "target_modules": ["q_proj"], "dtype": "fp32", "variant": "lora"},
        "precision": "bf16",
    }


def test_all_linear_layers_have_their_word() -> None:
    """No list of targets means every linear layer."""
    after = replace(SHORT, method=Method.LORA, lora=Lora())

    assert changes((SHORT, ONE_GPU), (after, ONE_GPU))["lora"] == {
        "rank": 16,
        "target_modules": "all-linear",
        "dtype": "fp32",
        "variant": "lora",
    }
