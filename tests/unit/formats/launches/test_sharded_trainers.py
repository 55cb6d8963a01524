"""Trainers that DeepSpeed, FSDP or accelerate shard."""

import json
from typing import Any

import pytest

from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.launch import Launcher
from tests.unit.formats.launches.importing import get_part, import_launch

TRAIN = "train.py --model_name_or_path meta-llama/Llama-3.1-8B --bf16 --max_length 2048"
ZERO3_OFFLOAD = {
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
    "fp16": {"enabled": "auto"},
    "bf16": {"enabled": "auto"},
    "zero_optimization": {
        "stage": 3,
        "offload_optimizer": {"device": "cpu", "pin_memory": True},
        "offload_param": {"device": "cpu", "pin_memory": True},
        "reduce_bucket_size": "auto",
    },
}
"""github.com/hiyouga/LLaMA-Factory, examples/deepspeed/ds_z3_offload_config.json, shortened."""
FSDP2 = """\
distributed_type: FSDP
fsdp_config:
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_offload_params: false
  fsdp_reshard_after_forward: true
  fsdp_version: 2
mixed_precision: bf16
num_machines: 1
num_processes: 2
"""
"""github.com/hiyouga/LLaMA-Factory, examples/accelerate/fsdp2_config.yaml, shortened."""
FSDP1 = """\
distributed_type: FSDP
fsdp_config:
  fsdp_sharding_strategy: SHARD_GRAD_OP
  fsdp_offload_params: true
num_machines: 2
num_processes: 16
"""


def test_deepspeed_says_stage_and_offload_and_the_trainer_what_is_auto() -> None:
    """``auto`` of the file is the trainer's; DeepSpeed's masters are fp32."""
    imported = import_launch(
        {"ds.json": json.dumps(ZERO3_OFFLOAD, indent=1)},
        f"torchrun --nproc_per_node 8 {TRAIN} --per_device_train_batch_size 4 "
        "--deepspeed configs/ds.json",
    )

    assert imported.launcher is Launcher.TRAINER
    assert imported.ignored == ()
    assert get_part(imported, "layout") == {
        "sharding": "deepspeed",
        "zero_stage": 3,
        "data_parallel": 8,
    }
    workload = get_part(imported, "workload")
    assert workload["offload"] == {"optimizer": "cpu", "parameters": "cpu"}
    assert (workload["precision"], workload["micro_batch_size"]) == ("bf16_mixed", 4)


@pytest.mark.parametrize(
    ("config", "precision"),
    [
        ({"bf16": {"enabled": True}}, "bf16_mixed"),
        (
            {"bf16": {"enabled": True}, "data_types": {"grad_accum_dtype": "fp32"}},
            "deepspeed_bf16",
        ),
        (
            {
                "bf16": {
                    "enabled": True,
                    "bf16_master_weights_and_grads": True,
                    "bf16_optimizer_states": True,
                }
            },
            "bf16",
        ),
        ({"fp16": {"enabled": True}}, "fp16_mixed"),
        ({}, "fp32"),
    ],
)
def test_deepspeed_alone_has_its_own_precision(config: dict[str, Any], precision: str) -> None:
    """Its file, handed in alone, is a trainer's whose other arguments are asked."""
    text = json.dumps({"zero_optimization": {"stage": 2}, **config}, indent=1)

    imported = import_launch({"ds.json": text})

    assert imported.launcher is Launcher.DEEPSPEED
    assert get_part(imported, "workload")["precision"] == precision
    assert {"model", "workload.sequence_length", "workload.micro_batch_size"} <= {
        question.field for question in imported.questions
    }


@pytest.mark.parametrize(
    ("config", "precision"),
    [
        ({"bf16": {"enabled": True}}, "deepspeed_bf16"),
        (
            {"bf16": {"enabled": True}, "data_types": {"grad_accum_dtype": "bf16"}},
            "bf16",
        ),
        ({"fp16": {"enabled": True}}, "fp16_mixed"),
        ({"bf16": {"enabled": True}, "optimizer": {"type": "OneBitAdam"}}, "bf16_mixed"),
    ],
)
def test_deepspeed_without_zero_has_wrappers_of_its_own(
    config: dict[str, Any], precision: str
) -> None:
    """That of bf16 accumulates in fp32, and bf16 gradients are left to a plain optimizer."""
    imported = import_launch({"ds.json": json.dumps(config)})

    assert get_part(imported, "workload")["precision"] == precision
    assert get_part(imported, "layout")["zero_stage"] == 0


def test_the_whole_batch_says_how_many_ranks_there_are() -> None:
    """DeepSpeed's ``train_batch_size`` is micro batch x accumulation x ranks."""
    config = {
        "zero_optimization": {"stage": 1},
        "train_batch_size": 64,
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": 4,
    }

    layout = get_part(import_launch({"ds.json": json.dumps(config)}), "layout")

    assert layout["data_parallel"] == 8


def test_fsdp2_of_accelerates_file_gathers_fp32_shards_in_bf16() -> None:
    """Version, resharding, processes and format are the file's."""
    imported = import_launch(
        {"fsdp2.yaml": FSDP2}, f"accelerate launch --config_file fsdp2.yaml {TRAIN}"
    )

    assert get_part(imported, "layout") == {
        "sharding": "fsdp2",
        "zero_stage": 3,
        "reshard_after_forward": True,
        "data_parallel": 2,
    }
    assert get_part(imported, "workload")["precision"] == {
        "param_dtype": "fp32",
        "compute_dtype": "bf16",
        "reduce_dtype": "bf16",
    }


def test_fsdp1_is_accelerates_default_version() -> None:
    """A strategy that keeps parameters, offload and two nodes are read from the file alone."""
    imported = import_launch({"accelerate.yaml": FSDP1})

    assert imported.launcher is Launcher.ACCELERATE
    layout = get_part(imported, "layout")
    assert (layout["sharding"], layout["reshard_after_forward"]) == ("fsdp1", False)
    assert (layout["data_parallel"], layout["gpus_per_node"]) == (16, 8)
    assert get_part(imported, "workload")["offload"]["parameters"] == "cpu"


def test_arguments_shard_by_fsdp_version_two() -> None:
    """``fsdp`` in its older words has transformers' default version."""
    imported = import_launch(
        arguments={
            "per_device_train_batch_size": 1,
            "bf16": True,
            "fsdp": "full_shard auto_wrap offload",
            "fsdp_config": {"activation_checkpointing": True},
        },
        launcher=Launcher.TRAINER,
    )

    assert get_part(imported, "layout")["sharding"] == "fsdp2"
    workload = get_part(imported, "workload")
    assert workload["offload"]["parameters"] == "cpu"
    assert workload["activation_checkpointing"] == "full"
    assert workload["reentrant_checkpointing"] is False


def test_accelerates_options_win_over_its_file() -> None:
    """A mesh of copies has the size of one as its shard group."""
    imported = import_launch(
        {"fsdp2.yaml": FSDP2},
        "accelerate launch --num_processes 8 --parallelism_config_dp_replicate_size 2 "
        f"--parallelism_config_dp_shard_size 4 {TRAIN}",
    )

    layout = get_part(imported, "layout")
    assert (layout["data_parallel"], layout["shard_size"]) == (8, 4)


@pytest.mark.parametrize(
    ("files", "command", "refusal"),
    [
        (
            {"ds.json": '{\n "zero_optimization": {"stage": 4}\n}'},
            TRAIN,
            r"ds.json:2: zero_optimization.stage is 4; expected one of 0, 1, 2, 3",
        ),
        (
            {"ds.json": '{"zero_optimization": {"stage": 1},\n "gradient_accumulation_steps": 4}'},
            f"{TRAIN} --gradient_accumulation_steps 2",
            r"ds.json:2: gradient_accumulation_steps is 4 beside .* 2 \(command\)",
        ),
        (
            {"ds.json": '{"zero_optimization": {"stage": 1},\n "bf16": {"enabled": false}}'},
            TRAIN,
            r'ds.json:2: bf16.enabled is false beside --bf16 .* say true or "auto"',
        ),
        (
            {"ds.json": '{"zero_optimization": {"stage": 1},\n "train_batch_size": 7}'},
            f"torchrun --nproc_per_node 2 {TRAIN} --per_device_train_batch_size 2",
            r"ds.json:2: train_batch_size is 7; expected 4, which is",
        ),
        (
            {"a.yaml": FSDP2.replace("forward: true", "forward: HYBRID_SHARD")},
            TRAIN,
            r"a.yaml:5: .*'HYBRID_SHARD'; expected FULL_SHARD or SHARD_GRAD_OP",
        ),
        (
            {"a.yaml": FSDP1.replace("num_processes: 16", "num_processes: 15")},
            TRAIN,
            r"a.yaml:6: num_processes is 15; expected a multiple of num_machines, 2",
        ),
        (
            {"a.yaml": "distributed_type: MEGATRON_LM"},
            TRAIN,
            r"a.yaml:1: distributed_type is 'MEGATRON_LM'; expected one of NO",
        ),
        (
            {"a.yaml": FSDP2, "ds.json": '{"zero_optimization": {"stage": 1}}'},
            TRAIN,
            "a configuration of DeepSpeed and one of FSDP",
        ),
    ],
)
def test_contradictions_are_refused_where_they_stand(
    files: dict[str, str], command: str, refusal: str
) -> None:
    """The refusal names file and line, and what would be right."""
    with pytest.raises(LaunchFormatError, match=refusal):
        import_launch(files, command, launcher=Launcher.TRAINER)


def test_a_file_that_was_not_handed_in_is_asked_for() -> None:
    """DeepSpeed shards, by a stage that only the file says."""
    imported = import_launch(command=f"torchrun --nproc_per_node 8 {TRAIN} --deepspeed my.json")

    assert get_part(imported, "layout")["sharding"] == "deepspeed"
    assert "layout.zero_stage" in imported.open_fields


def test_a_trainers_file_with_a_word_of_fsdp_stays_the_trainers() -> None:
    """LLaMA-Factory's files have ``fsdp_transformer_layer_cls_to_wrap`` beside their own keys."""
    text = (
        "model_name_or_path: m\nstage: sft\nfinetuning_type: full\ncutoff_len: 1024\n"
        "fsdp: full_shard auto_wrap\nfsdp_transformer_layer_cls_to_wrap: QwenLayer\n"
    )

    imported = import_launch({"a.yaml": text})

    assert imported.launcher is Launcher.LLAMAFACTORY
    assert get_part(imported, "layout")["sharding"] == "fsdp2"
    assert get_part(imported, "workload")["sequence_length"] == 1024
