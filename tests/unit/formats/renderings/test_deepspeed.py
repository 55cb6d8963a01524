"""DeepSpeed's configuration: documented keys, and the layout's numbers."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import Offload, OffloadTarget
from service.formats.renderings.render import make_launch
from tests.unit.formats.renderings.builders import BATCHED, TRAIN, ZERO_3, a_job


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_deepspeed_reads_back_the_stage_and_the_batch(stage: int) -> None:
    """The three batch sizes agree as DeepSpeed's own check demands (``_batch_assertion``): micro x
    steps x ranks.
    """
    launch = make_launch(a_job(BATCHED, replace(ZERO_3, zero_stage=stage)))
    config = json.loads(launch.files["deepspeed_config.json"])

    assert config["zero_optimization"]["stage"] == stage
    micro, steps = config["train_micro_batch_size_per_gpu"], config["gradient_accumulation_steps"]
    assert (micro, steps, config["train_batch_size"]) == (2, 4, micro * steps * 16)


def test_deepspeed_keys_are_documented_ones() -> None:
    """Every key stands in DeepSpeed's documentation (deepspeed.ai/docs/config-json)."""
    asked = replace(
        BATCHED,
        gradient_clipping=True,
        offload=Offload(optimizer=OffloadTarget.NVME, parameters=OffloadTarget.CPU),
    )
    known = json.loads((Path(__file__).with_name("schemas") / "deepspeed_keys.json").read_bytes())
    for policy in POLICIES.values():
        config = json.loads(
            make_launch(a_job(replace(asked, precision=policy))).files["deepspeed_config.json"]
        )

        assert set(config) <= set(known["config"])
        assert set(config["zero_optimization"]) <= set(known["zero_optimization"])
        assert all(
            set(config.get(name, ())) <= set(known[name])
            for name in ("bf16", "fp16", "torch_autocast", "data_types")
        )


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("fp32", {}),
        ("bf16_mixed", {"bf16": {"enabled": True}, "data_types": {"grad_accum_dtype": "bf16"}}),
        ("deepspeed_bf16", {"bf16": {"enabled": True}, "data_types": {"grad_accum_dtype": "fp32"}}),
        ("fp16_mixed", {"fp16": {"enabled": True}, "data_types": {"grad_accum_dtype": "fp16"}}),
        ("amp_bf16", {"torch_autocast": {"enabled": True, "dtype": "bfloat16"}}),
    ],
)
def test_a_precision_is_said_in_deepspeeds_words(policy: str, expected: dict[str, object]) -> None:
    """16 and 20 bytes per parameter differ in where gradients accumulate, and autocast is a section
    of its own.
    """
    launch = make_launch(a_job(replace(TRAIN, precision=POLICIES[policy])))
    config = json.loads(launch.files["deepspeed_config.json"])

    assert {
        name: config[name]
        for name in ("bf16", "fp16", "torch_autocast", "data_types")
        if name in config
    } == expected
