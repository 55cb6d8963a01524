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
