"""Megatron-LM's arguments, read back by a parser of its declarations."""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import pytest

from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.pipeline import PipelineSplit
from service.estimator.values.precision import POLICIES
from service.formats.renderings.render import make_launch
from tests.unit.formats.renderings.builders import MEGATRON, a_job


def test_megatrons_arguments_hold_the_layout_and_the_shape() -> None:
    """Interleaved stages of 80 layers on 4 x 2 parts have 10 each; what has no value is a
    switch.
    """
    layout = Layout(
        data_parallel=2,
        tensor_parallel=8,
        pipeline_parallel=4,
        virtual_pipeline_stages=2,
        sequence_parallel=True,
        sharding=Sharding.MEGATRON,
        zero_stage=1,
    )
    asked = replace(MEGATRON, gradient_accumulation_steps=8, precision=POLICIES["megatron_bf16"])
    command = make_launch(a_job(asked, layout, model="llama-2-70b")).command
    read = _megatron().parse_args(command[command.index("pretrain_gpt.py") + 1 :])

    assert (read.tensor_model_parallel_size, read.pipeline_model_parallel_size) == (8, 4)
    assert (
        read.num_layers_per_virtual_pipeline_stage,
        read.global_batch_size,
        read.num_query_groups,
    ) == (10, 16, 8)
    assert read.sequence_parallel
    assert read.use_distributed_optimizer
    assert read.accumulate_allreduce_grads_in_fp32
    assert read.swiglu


@pytest.mark.parametrize(
    ("split", "virtual", "option", "value"),
    [
        ({"num_layers_in_last_pipeline_stage": 1}, 1, "decoder_last_pipeline_num_layers", 1),
        (
            {"pipeline_model_parallel_layout": "Et|(tt|)*30mL"},
            2,
            "pipeline_model_parallel_layout",
            "Et|(tt|)*30mL",
        ),
        ({"pipeline_model_parallel_layout": "Et|(tt|)*30mL"}, 2, "mtp_num_layers", 1),
        (
            {"pipeline_layers": (4,) * 15 + (1,)},
            1,
            "pipeline_model_parallel_layout",
            "Etttt" + "|tttt" * 14 + "|tL",
        ),
        (
            {"partition_method": "type:transformer"},
            1,
            "pipeline_model_parallel_layout",
            "Etttt" + "|tttt" * 12 + "|ttt" * 2 + "|tttL",
        ),
    ],
)
def test_megatrons_arguments_carry_an_uneven_pipeline(
    split: dict[str, object], virtual: int, option: str, value: object
) -> None:
    """DeepSeek-V3's 61 layers on 16 stages, in Megatron-LM's own words where it has them."""
    layout = Layout(
        pipeline_parallel=16,
        virtual_pipeline_stages=virtual,
        pipeline_split=PipelineSplit(**split),  # type: ignore[arg-type]  # fields by name
        sharding=Sharding.MEGATRON,
    )
    asked = replace(MEGATRON, gradient_accumulation_steps=64, precision=POLICIES["megatron_bf16"])
    command = make_launch(a_job(asked, layout, model="deepseek-v3-bf16")).command
    read = _megatron().parse_args(command[command.index("pretrain_gpt.py") + 1 :])

    assert getattr(read, option) == value
    assert (read.moe_layer_freq, read.kv_lora_rank) == ("([0]*3+[1]*58)", 512)
    assert read.multi_latent_attention
    assert read.num_layers_per_virtual_pipeline_stage is None


def _megatron() -> argparse.ArgumentParser:
    """Return a parser of the arguments as Megatron-LM declares them (Core 0.14,
    ``megatron/training/arguments.py``).
    """
    parser = argparse.ArgumentParser(allow_abbrev=False)
    declared = json.loads(
        (Path(__file__).with_name("schemas") / "megatron_arguments.json").read_bytes()
    )
    for name in declared["integers"]:
        parser.add_argument(f"--{name}", type=int)
    for name, choices in declared["words"].items():
        parser.add_argument(f"--{name}", choices=choices)
    for name in ("clip-grad", "attention-dropout", "hidden-dropout", "sgd-momentum"):
        parser.add_argument(f"--{name}", type=float)
    for name in declared["switches"]:
        parser.add_argument(f"--{name}", action="store_true")
    return parser
