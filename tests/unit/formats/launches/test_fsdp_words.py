"""FSDP's words by whoever reads them."""

import pytest

from service.formats.launches.values.launch import Launcher
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
