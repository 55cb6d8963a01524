"""A change is said in the words of the contract, and only what differs is said."""

from dataclasses import replace

from service.estimator.values.adapters.lora_kernels import LoraKernel
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import Checkpointing, Lora, Method, Offload, OffloadTarget
from service.planner.fit.changes import list_changes
from tests.unit.planner.builders import ONE_GPU, SHORT, ZERO_3


def test_equal_configurations_differ_in_nothing() -> None:
    """No difference, no words."""
    assert list_changes((SHORT, ONE_GPU), (replace(SHORT), replace(ONE_GPU))) == {}


def test_fields_of_workload_and_layout_stand_side_by_side() -> None:
    """Enums are their words, numbers themselves."""
    after = replace(SHORT, activation_checkpointing=Checkpointing.FULL)

    assert list_changes((SHORT, ONE_GPU), (after, ZERO_3)) == {
        "activation_checkpointing": "full",
        "data_parallel": 8,
        "zero_stage": 3,
        "sharding": "deepspeed",
    }


def test_adapters_and_precision_are_said_as_requests_say_them() -> None:
    """What the change says can be sent back."""
    after = replace(
        SHORT, method=Method.LORA, lora=Lora(targets=("q_proj",)), precision=POLICIES["bf16"]
    )

    assert list_changes((SHORT, Layout()), (after, Layout(sharding=Sharding.DDP))) == {
        "method": "lora",
        "lora": {
            "rank": 16,
            "target_modules": ["q_proj"],
            "dtype": "fp32",
            "variant": "lora",
            "dropout": 0.0,
        },
        "precision": "bf16",
    }


def test_recomputing_every_so_many_layers_is_one_word() -> None:
    """The contract says how much is recomputed in one field, whichever way it changes."""
    every = replace(SHORT, activation_checkpointing=Checkpointing.SELECTIVE, selective_every=2)
    full = replace(SHORT, activation_checkpointing=Checkpointing.FULL)

    assert list_changes((every, ONE_GPU), (full, ONE_GPU)) == {"activation_checkpointing": "full"}
    assert list_changes((full, ONE_GPU), (every, ONE_GPU)) == {
        "activation_checkpointing": {"selective": 2}
    }


def test_what_is_moved_off_the_gpu_is_said_part_by_part() -> None:
    """An offload is an object of the contract."""
    after = replace(SHORT, offload=Offload(optimizer=OffloadTarget.CPU))

    assert list_changes((SHORT, ONE_GPU), (after, ONE_GPU)) == {
        "offload": {"optimizer": "cpu", "parameters": "none", "activations": "none"}
    }


def test_all_linear_layers_have_their_word() -> None:
    """No list of targets means every linear layer."""
    after = replace(SHORT, method=Method.LORA, lora=Lora())

    assert list_changes((SHORT, ONE_GPU), (after, ONE_GPU))["lora"] == {
        "rank": 16,
        "target_modules": "all-linear",
        "dtype": "fp32",
        "variant": "lora",
        "dropout": 0.0,
    }


def test_kernels_of_adapters_are_said_where_there_are_some() -> None:
    """They are a list of the layers that they run."""
    after = replace(SHORT, method=Method.LORA, lora=Lora(kernels=(LoraKernel.MLP,)))

    changed = list_changes((SHORT, ONE_GPU), (after, ONE_GPU))["lora"]

    assert isinstance(changed, dict)
    assert changed["kernels"] == ["mlp"]


def test_norms_of_qlora_in_16_bits_are_said() -> None:
    """A request for QLoRA that leaves them out has them in fp32, whatever was trained before."""
    quantised = replace(SHORT, method=Method.QLORA, lora=Lora(), fp32_norms_and_head=False)
    prepared = replace(quantised, fp32_norms_and_head=True)

    for before in (SHORT, replace(SHORT, method=Method.LORA, lora=Lora())):
        assert list_changes((before, ONE_GPU), (quantised, ONE_GPU))["fp32_norms_and_head"] is False
        assert list_changes((before, ONE_GPU), (prepared, ONE_GPU))["fp32_norms_and_head"] is True
