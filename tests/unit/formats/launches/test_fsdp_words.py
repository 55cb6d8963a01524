"""FSDP's words by whoever reads them."""

import pytest

from service.formats.launches.values.launch import ImportedLaunch, Launcher
from tests.unit.formats.launches.importing import get_part, import_launch


@pytest.mark.parametrize("prefix", ["", "fsdp_"])
def test_arguments_offload_by_the_name_that_transformers_reads(prefix: str) -> None:
    """``offload_params`` is accelerate's and axolotl's; the Trainer leaves it unread."""
    read, unread = (
        import_launch(
            arguments={"bf16": True, "fsdp": True, "fsdp_config": {f"{prefix}{name}": True}},
            launcher=Launcher.TRAINER,
        )
        for name in ("cpu_offload", "offload_params")
    )

    assert get_part(read, "workload")["offload"]["parameters"] == "cpu"
    assert read.ignored == ()
    assert "offload" not in get_part(unread, "workload")
    assert unread.ignored == (f"fsdp_config.{prefix}offload_params",)
    assert any("cpu_offload is the name" in text for text in unread.warnings)


def test_accelerates_file_offloads_by_its_own_name() -> None:
    """Its ``fsdp_config`` has no ``cpu_offload``."""
    text = "distributed_type: FSDP\nfsdp_config:\n  cpu_offload: true\nnum_processes: 8\n"

    imported = import_launch({"accelerate.yaml": text})

    assert "offload" not in get_part(imported, "workload")
    assert imported.ignored == ("fsdp_config.cpu_offload",)


@pytest.mark.parametrize(
    ("processes", "shard_size", "asks"),
    [
        ("num_machines: 4\nnum_processes: 16\n", 4, False),
        ("num_machines: 1\nnum_processes: 8\n", None, False),
        ("num_machines: 4\n", None, True),
    ],
    ids=["nodes", "one node", "unsaid"],
)
def test_hybrid_sharding_has_a_copy_on_each_node(
    processes: str, shard_size: int | None, *, asks: bool
) -> None:
    """Its hybrid strategies share the states among one node's GPUs."""
    text = "distributed_type: FSDP\nfsdp_config:\n  fsdp_sharding_strategy: HYBRID_SHARD\n"

    imported = import_launch({"accelerate.yaml": text + processes})

    assert get_part(imported, "layout").get("shard_size") == shard_size
    fields = {question.field for question in imported.questions}
    assert ("layout.shard_size" in fields) is asks


def test_hybrid_sharding_over_nodes_that_slurm_chooses_is_asked() -> None:
    """``srun --ntasks`` alone says how many processes there are, not where."""
    imported = import_launch(
        command="srun --ntasks 16 train.py --fsdp hybrid_shard --fsdp_config.version 1",
        launcher=Launcher.TRAINER,
    )

    assert get_part(imported, "layout")["data_parallel"] == 16
    assert "layout.shard_size" in {question.field for question in imported.questions}


def import_fsdp(config: dict[str, object]) -> ImportedLaunch:
    """Return the question of a plain Trainer with FSDP's settings."""
    arguments = {"bf16": True, "fsdp": True, "fsdp_config": config}
    return import_launch(arguments=arguments, launcher=Launcher.TRAINER)


def test_arguments_shard_by_reshard_after_forward_alone() -> None:
    """A ``sharding_strategy`` was honoured that transformers 5.23 leaves unread."""
    unread = import_fsdp({"sharding_strategy": "SHARD_GRAD_OP"})
    read = import_fsdp({"reshard_after_forward": False})

    assert get_part(unread, "layout")["reshard_after_forward"] is True
    assert unread.ignored == ("fsdp_config.sharding_strategy",)
    assert get_part(read, "layout")["reshard_after_forward"] is False


def test_arguments_offload_no_activations() -> None:
    """``activation_checkpointing_offload`` is accelerate's file's."""
    imported = import_fsdp(
        {"activation_checkpointing": True, "activation_checkpointing_offload": True}
    )

    assert "offload" not in get_part(imported, "workload")
    assert imported.ignored == ("fsdp_config.activation_checkpointing_offload",)


ACCELERATE = """distributed_type: FSDP
num_processes: 8
fsdp_config:
  fsdp_version: 2
  fsdp_offload_params: true
  fsdp_activation_checkpointing: true
  fsdp_activation_checkpointing_offload: true
"""


def test_accelerates_file_offloads_what_the_trainer_leaves_to_it() -> None:
    """``cpu_offload: false`` hands nothing over: the plugin reads the environment then."""
    imported = import_launch(
        {"fsdp.yaml": ACCELERATE},
        arguments={"fsdp": True, "fsdp_config": {"cpu_offload": False}, "bf16": True},
        launcher=Launcher.TRAINER,
    )

    offload = get_part(imported, "workload")["offload"]
    assert offload == {"parameters": "cpu", "optimizer": "cpu", "activations": "cpu"}


PEFT = {"r": 8, "target_modules": ["q_proj"]}


def test_adapters_under_fsdp_have_fp32_shards() -> None:
    """Weights in fp32 are gathered in 16 bits, adapters or not."""
    imported = import_launch(
        arguments={
            "bf16": True,
            "fsdp": True,
            "model_kwargs": {"dtype": "float32"},
            "peft": PEFT,
        },
        launcher=Launcher.TRAINER,
    )

    precision = {"param_dtype": "fp32", "compute_dtype": "bf16", "reduce_dtype": "bf16"}
    assert get_part(imported, "workload")["precision"] == precision


@pytest.mark.parametrize("half", ["bf16", "fp16"])
def test_adapters_under_deepspeed_are_cast_with_the_model(half: str) -> None:
    """DeepSpeed runs no autocast: its engine casts weights and adapters to its own format."""
    imported = import_launch(
        arguments={
            half: True,
            "deepspeed": {"zero_optimization": {"stage": 2}, half: {"enabled": "auto"}},
            "model_kwargs": {"load_in_4bit": True},
            "peft": PEFT,
        },
        launcher=Launcher.TRAINER,
    )

    workload = get_part(imported, "workload")
    assert workload["precision"] == f"{half}_mixed"
    assert workload["lora"]["dtype"] == half
    assert workload["fp32_norms_and_head"] is False
    assert any("fp32 copies of the adapters" in text for text in imported.warnings)
