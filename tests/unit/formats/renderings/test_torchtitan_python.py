"""torchtitan's Python function: what 0.3 is told is what the TOML says, or nothing."""

import tomllib
from dataclasses import replace
from typing import Any

import pytest

from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import Checkpointing, Framework, TrainWorkload
from service.formats.launches.pretraining.torchtitan_files import read_config_file
from service.formats.renderings.render import make_launch
from tests.unit.formats.renderings.builders import FULLY_SHARDED, TRAIN, a_job

TITAN = replace(
    TRAIN,
    framework=Framework.TORCHTITAN,
    micro_batch_size=2,
    precision=POLICIES["amp_bf16"],
)
PIPELINE = Layout(
    data_parallel=4, tensor_parallel=2, pipeline_parallel=4, sharding=Sharding.FSDP2, zero_stage=3
)
_ELSEWHERE = {"activation_checkpoint", "optimizer"}
_GONE = {"parallelism.disable_loss_parallel"}


@pytest.mark.parametrize("layout", [FULLY_SHARDED, PIPELINE])
def test_both_files_say_the_same(layout: Layout) -> None:
    """Every field of the TOML that 0.3 has, with its value; our own reader takes the function."""
    files = make_launch(a_job(TITAN, layout)).files
    tables = tomllib.loads(files["torchtitan.toml"])
    read = read_config_file("torchtitan_config.py", files["torchtitan_config.py"], None).take_all()

    expected = {
        f"{table}.{name}": value
        for table, values in tables.items()
        for name, value in values.items()
        if table not in _ELSEWHERE
    }
    found = {path: setting.value for path, setting in read.items()}
    assert {path: found.get(path) for path in expected if path not in _GONE} == {
        path: value for path, value in expected.items() if path not in _GONE
    }
    assert not _GONE & set(found)
    assert found["training.disable_cuda_graphs"] is True


@pytest.mark.parametrize(
    ("mode", "kind"),
    [(Checkpointing.FULL, "FullAC"), (Checkpointing.SELECTIVE, "SelectiveAC")],
)
def test_recomputation_is_a_class(mode: Checkpointing, kind: str) -> None:
    """Which 0.3 has in place of a mode."""
    job = a_job(replace(TITAN, activation_checkpointing=mode), FULLY_SHARDED)
    text = make_launch(job).files["torchtitan_config.py"]

    assert f"config.activation_checkpoint = {kind}.Config()\n" in text


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"float8": True}, "products in fp8"),
        ({"optimizer_in_backward": True}, "a step in backward"),
        ({"precision": POLICIES["bf16"]}, "gradients reduced in bf16"),
        (
            {"activation_checkpointing": Checkpointing.SELECTIVE, "selective_every": 2},
            "recomputation of every n-th layer",
        ),
    ],
)
def test_what_it_has_no_field_for_is_said(changes: dict[str, Any], reason: str) -> None:
    """There is no file then, and the note says why."""
    workload: TrainWorkload = replace(TITAN, **changes)
    launch = make_launch(a_job(workload, FULLY_SHARDED))

    assert list(launch.files) == ["torchtitan.toml"]
    assert f"torchtitan 0.3 has no field for {reason}: use 0.2.2" in launch.notes
