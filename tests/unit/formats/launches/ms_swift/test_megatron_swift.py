"""Megatron-SWIFT's commands and files, as Megatron-LM's training of a named model."""

from pathlib import Path
from typing import Any

import pytest

from service.formats.launches.read_launch import read_launch
from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.launch import Checkpoint, ImportedLaunch, Launch, Launcher
from tests.unit.formats.launches.asking import ask_command
from tests.unit.formats.launches.importing import get_part, import_launch

BASE = "--model a/b --dataset x --max_length 4096"
ARGUMENTS = Path(__file__).with_name("megatron_arguments.txt").read_text(encoding="utf-8").split()
"""Of ``MegatronArguments`` of ms-swift 4.6."""
_CHOICES = {
    "tuner_type": "full",
    "recompute_granularity": "full",
    "recompute_method": "uniform --recompute_granularity full",
    "cross_entropy_fusion_impl": "te",
    "attention_backend": "flash",
    "optimizer": "sgd",
    "global_batch_size": "4",
    **dict.fromkeys(("main_grads_dtype", "main_params_dtype"), "fp32"),
    **dict.fromkeys(("exp_avg_dtype", "exp_avg_sq_dtype"), "fp32"),
    "data_parallel_sharding_strategy": "optim",
    "moe_token_dispatcher_type": "alltoall",
    "pipeline_model_parallel_layout": "Et|tL --pipeline_model_parallel_size 2",
    "fp8_format": "hybrid",
    "torch_dtype": "bfloat16",
    "task_type": "causal_lm",
    "model": "a/c",
}
"""Values of arguments that do not take a number."""


def _import(words: str, before: str = "NPROC_PER_NODE=8") -> ImportedLaunch:
    return import_launch(command=f"{before} megatron {words} {BASE}")


def _get_workload(words: str) -> dict[str, Any]:
    return get_part(_import(words), "workload")


def test_defaults_are_its_own() -> None:
    """All weights in bf16, sixteen rows a step, the distributed optimizer, a fused loss."""
    imported = _import("sft")

    assert (imported.launcher, imported.ignored) == (Launcher.MS_SWIFT, ())
    assert imported.versions["megatron-core"] == "0.20.0"
    assert get_part(imported, "layout") == {
        "data_parallel": 8,
        "sharding": "megatron",
        "zero_stage": 1,
    }
    assert get_part(imported, "workload") == {
        "task": "train",
        "framework": "megatron",
        "method": "full",
        "sequence_length": 4096,
        "micro_batch_size": 1,
        "gradient_accumulation_steps": 2,
        "precision": "megatron_bf16",
        "optimizer": "adamw",
        "activation_checkpointing": "selective",
        "attention": "flash",
        "gradient_clipping": True,
        "loss": "fused_cross_entropy",
        "megatron": {
            "cross_entropy_fusion_impl": "native",
            "gradient_accumulation_fusion": True,
        },
    }


@pytest.mark.parametrize(
    ("words", "fields"),
    [
        ("--recompute_granularity none", {"activation_checkpointing": None}),
        (
            "--recompute_granularity full --recompute_method uniform --recompute_num_layers 1",
            {"activation_checkpointing": "full"},
        ),
        ("--packing_length 8192 --packing true", {"sequence_length": 8192}),
        ("--main_grads_dtype bf16 --use_precision_aware_optimizer true", {"optimizer": "adamw"}),
        ("--torch_dtype float16", {"precision": "fp16_mixed"}),
        ("--tuner_type lora --lora_rank 16", {"method": "lora"}),
        ("--optimizer_cpu_offload true", {"offload": {"optimizer": "cpu"}}),
    ],
)
def test_words_mean_what_it_runs(words: str, fields: dict[str, Any]) -> None:
    """By Megatron-LM's names, or its own."""
    workload = _get_workload(f"sft {words}")

    assert {field: workload.get(field) for field in fields} == fields


def test_stages_interleave_by_its_word() -> None:
    """The virtual stages of a rank."""
    layout = get_part(
        _import("pt --pipeline_model_parallel_size 4 --virtual_pipeline_model_parallel_size 2"),
        "layout",
    )

    assert (layout["pipeline_parallel"], layout["virtual_pipeline_stages"]) == (4, 2)


def test_experts_are_not_cut_unless_it_is_said() -> None:
    """Where Megatron-LM cuts them with their layers; they are the named model's."""
    mixture = Checkpoint(model_type="qwen3_moe", dtype="bfloat16", num_experts=128)
    words = "megatron sft --model a/b --max_length 512 --tensor_model_parallel_size 4 "
    command = ("NPROC_PER_NODE=8", *words.split(), "--expert_model_parallel_size", "8")

    imported = read_launch(Launch(command=command, find_checkpoint=lambda _name: mixture))

    layout, workload = get_part(imported, "layout"), get_part(imported, "workload")
    assert (layout["expert_parallel"], layout["expert_tensor_parallel"]) == (8, 1)
    assert {"moe_token_dispatcher_type": "alltoall", "moe_grouped_gemm": True}.items() <= (
        workload["megatron"].items()
    )


def test_its_scripts_and_files_are_known() -> None:
    """A path of ms-swift's is no script of TRL's."""
    command = "torchrun --nproc_per_node 4 a/swift/cli/_megatron/sft.py --model a/b --max_length 64"
    script = "torchrun --nproc_per_node 4 a/swift/cli/sft.py --model a/b --max_length 64"
    text = "model: c/d\nmax_length: 64\nmicro_batch_size: 2\nglobal_batch_size: 8\n"

    frameworks = [
        get_part(imported, "workload")["framework"]
        for imported in (
            import_launch(command=command),
            import_launch(command=script),
            import_launch({"a.yaml": text}, "NPROC_PER_NODE=4 megatron sft a.yaml"),
        )
    ]

    assert frameworks == ["megatron", "transformers", "megatron"]


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        ("rlhf --rlhf_type dpo", "preferences and policies on Megatron-LM have no term"),
        ("export", "swift export neither trains nor serves"),
        ("sft --tuner_type lora_llm", "expected one of full, lora"),
        ("sft --task_type seq_cls", "--head sequence_classification"),
        ("sft --global_batch_size 12", "expected a multiple of 8"),
    ],
)
def test_what_has_no_model_is_refused(words: str, refusal: str) -> None:
    """With what would be right."""
    with pytest.raises(LaunchFormatError, match=refusal):
        _import(words)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_every_argument_is_accounted_for(name: str) -> None:
    """Read, without effect, or ignored with a reason."""
    imported = import_launch(
        command=f"NPROC_PER_NODE=2 megatron sft --model a/b --max_length 64 --{name} "
        f"{_CHOICES.get(name, '1')}"
    )

    read = {key.key for key in imported.read}
    assert f"--{name}" in read | {*imported.without_effect} | {*imported.ignored}
    if f"--{name}" in imported.ignored:
        assert any(f"--{name} is ignored: " in warning for warning in imported.warnings)


def test_its_question_has_an_answer() -> None:
    """Nothing is missing, and nobody refuses it."""
    question = ask_command(
        "NPROC_PER_NODE=8 megatron sft --model qwen2.5-7b --dataset x --max_length 4096 "
        "--tensor_model_parallel_size 2 --sequence_parallel true",
        gpu="H100-SXM5-80GB",
    )

    assert (question.missing, question.refusal) == ((), None)
