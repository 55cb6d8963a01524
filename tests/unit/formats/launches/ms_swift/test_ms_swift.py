"""ms-swift's commands and files, as the trainers that they stand for."""

from pathlib import Path
from typing import Any

import pytest

from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.launch import ImportedLaunch, Launcher
from tests.unit.formats.launches.asking import ask_command
from tests.unit.formats.launches.importing import get_part, import_launch

BASE = "--model a/b --dataset x --max_length 512"
ARGUMENTS = Path(__file__).with_name("arguments.txt").read_text(encoding="utf-8").split()
"""Of ``SftArguments`` and ``RLHFArguments`` of ms-swift 4.6, without ``TrainingArguments``'."""
_CHOICES = {
    "deepspeed_autotp_size": "2",
    "lora_dtype": "bfloat16",
    "optimizer": "lorap",
    "quant_method": "bnb --quant_bits 4",
    "rlhf_type": "dpo",
    "sequence_parallel_size": "2",
    "sleep_level": "1",
    "task_type": "causal_lm",
    "torch_dtype": "bfloat16",
    "tuner_backend": "unsloth",
    "tuner_type": "lora",
    "vllm_mode": "colocate --use_vllm true",
    "use_vllm": "true --vllm_mode colocate",
    "max_length": "256",
    "model": "a/c",
    "fsdp": "fsdp2",
    "deepspeed": "zero2",
}
"""Values of arguments that do not take a number."""


def _import(words: str, before: str = "", files: dict[str, str] | None = None) -> ImportedLaunch:
    return import_launch(files, f"{before} swift {words} {BASE}")


def _get_workload(words: str, before: str = "") -> dict[str, Any]:
    return get_part(_import(words, before), "workload")


def test_defaults_are_its_own() -> None:
    """Adapters of every linear layer over bf16, sixteen rows a step, layers computed again."""
    imported = _import("sft")

    assert imported.launcher is Launcher.MS_SWIFT
    assert (imported.ignored, imported.questions) == ((), ())
    assert get_part(imported, "workload") == {
        "task": "train",
        "framework": "transformers",
        "method": "lora",
        "lora": {"rank": 8, "target_modules": "all-linear", "dropout": 0.05},
        "precision": "bf16_autocast",
        "sequence_length": 512,
        "micro_batch_size": 1,
        "gradient_accumulation_steps": 16,
        "optimizer": "adamw_torch_fused",
        "gradient_clipping": True,
        "activation_checkpointing": "full",
        "reentrant_checkpointing": True,
    }


@pytest.mark.parametrize(
    ("words", "before", "fields"),
    [
        ("sft", "NPROC_PER_NODE=4", {"gradient_accumulation_steps": 4}),
        ("sft", "NPROC_PER_NODE=4", {"reentrant_checkpointing": False}),
        ("sft --deepspeed zero2", "NPROC_PER_NODE=4", {"reentrant_checkpointing": True}),
        ("sft --gradient_checkpointing_kwargs '{\"use_reentrant\": false}'", "", {
            "reentrant_checkpointing": False
        }),
        ("sft --tuner_type full", "", {"method": "full", "precision": "bf16_autocast"}),
        ("sft --torch_dtype float32", "", {"precision": "amp_fp16"}),
        ("sft --packing true --attn_impl flash_attn", "", {
            "packing": "packed", "attention": "flash"
        }),
        ("sft --padding_free true --attn_impl flash_attention_2", "", {"packing": "padding_free"}),
        ("sft --quant_method bnb --quant_bits 4", "", {
            "method": "qlora", "quantization_bits": 4, "double_quantization": True,
            "fp32_norms_and_head": False,
        }),
        ("sft --quant_bits 4", "", {"method": "lora", "quantization_bits": None}),
        ("sft --use_galore true", "", {"optimizer": "galore_adamw"}),
        ("sft --optimizer muon --optim sgd", "", {"optimizer": "muon"}),
        ("sft --use_liger_kernel true", "", {"kernels": "liger", "loss": None}),
        ("sft --use_liger_kernel true --enable_dft_loss true", "", {"loss": "full_logits"}),
        ("sft --split_dataset_ratio 0.01", "", {
            "evaluation": {"batch_size": 1, "kept_batches": 0}
        }),
        ("sft --eval_strategy steps", "", {"evaluation": None}),
        ("sft --split_dataset_ratio 0.01 --save_strategy no", "", {"evaluation": None}),
        ("rlhf", "", {"trainer": "dpo", "reference": "adapters_off", "loss": "selective"}),
        ("rlhf --tuner_type full", "", {"trainer": "dpo", "reference": "model"}),
        ("rlhf --rlhf_type kto", "", {"trainer": "kto", "loss": "selective"}),
        ("rlhf --rlhf_type orpo", "", {"trainer": "orpo", "reference": None}),
        ("rlhf --rlhf_type simpo", "", {"trainer": "cpo"}),
        ("rlhf --rlhf_type simpo --cpo_alpha 0", "", {"trainer": "simpo"}),
        ("rlhf --rlhf_type rm", "", {"trainer": "reward", "precision": "bf16_autocast"}),
        ("sft --save_total_limit -1", "", {"save_total_limit": None}),
    ],
)  # fmt: skip
def test_words_mean_what_it_runs(words: str, before: str, fields: dict[str, Any]) -> None:
    """Trained weights and adapters keep their formats, and bits need a method."""
    workload = _get_workload(words, before)

    assert {field: workload.get(field) for field in fields} == fields


@pytest.mark.parametrize(
    ("word", "layout"),
    [
        ("--deepspeed zero0", {"sharding": "deepspeed", "zero_stage": 0}),
        ("--deepspeed zero3", {"sharding": "deepspeed", "zero_stage": 3}),
        ("--fsdp fsdp2", {"sharding": "fsdp2"}),
        ("--sequence_parallel_size 2", {"context_parallel": 2, "data_parallel": 2}),
    ],
)
def test_files_that_come_with_it_are_known(word: str, layout: dict[str, Any]) -> None:
    """By the name that its command has for each."""
    told = get_part(_import(f"sft {word}", "NPROC_PER_NODE=4"), "layout")

    assert {field: told[field] for field in layout} == layout


def test_offloads_of_its_files_are_read() -> None:
    """zero3_offload has weights and states on the host."""
    workload = _get_workload("sft --deepspeed zero3_offload", "NPROC_PER_NODE=2")

    assert workload["offload"] == {"optimizer": "cpu", "parameters": "cpu"}


def test_a_file_has_its_options_and_variables() -> None:
    """The command's win; ENV says how many processes there are."""
    text = "model: c/d\nmax_length: 64\ntuner_type: full\nENV:\n  NPROC_PER_NODE: 2\n"

    imported = import_launch({"sft.yaml": text}, "swift sft sft.yaml --max_length 128")
    alone = import_launch({"sft.yaml": f"{text}dataset: [x]\nsplit_dataset_ratio: 0.1\n"})

    assert get_part(imported, "workload")["sequence_length"] == 128
    assert get_part(imported, "layout")["data_parallel"] == 2
    assert (imported.question["model"], imported.ignored) == ("c/d", ())
    assert alone.launcher is Launcher.MS_SWIFT
    assert get_part(alone, "layout")["data_parallel"] == 2


def test_fsdps_file_is_handed_in() -> None:
    """It has two keys of its own."""
    text = '{"fsdp": "full_shard auto_wrap", "fsdp_config": {"fsdp_version": 2, '
    files = {"f.json": text + '"reshard_after_forward": true, "activation_checkpointing": true}}'}

    layout = get_part(_import("sft --fsdp f.json", "NPROC_PER_NODE=2", files), "layout")

    assert (layout["sharding"], layout["data_parallel"]) == ("fsdp2", 2)
    with pytest.raises(LaunchFormatError, match="a file that was handed in too"):
        _import("sft --fsdp f.json", "NPROC_PER_NODE=2")


@pytest.mark.parametrize("before", ["CUDA_VISIBLE_DEVICES=0,1", "CUDA_VISIBLE_DEVICES=0,1,2,3"])
def test_one_process_spreads_its_layers(before: str) -> None:
    """Nothing replicates them, and there is no term: all on one GPU is what is counted."""
    imported = _import("sft", before)

    assert "data_parallel" not in {question.field for question in imported.questions}
    assert any("spreads the layers over" in warning for warning in imported.warnings)


def test_a_length_is_asked_where_nobody_says_it() -> None:
    """Rows are the data's then, up to the model's limit."""
    imported = import_launch(command="swift sft --model a/b --dataset x")

    assert [question.field for question in imported.questions] == ["workload.sequence_length"]


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        ("export", "swift export neither trains nor serves what is read here"),
        ("deploy", "it runs its own generate"),
        ("sft --tuner_type adalora", "expected one of lora, full"),
        ("sft --quant_method hqq", "expected one of bnb"),
        ("sft --quant_method bnb", "expected quant_bits beside it, 4 or 8"),
        ("sft --quant_method bnb --quant_bits 4 --tuner_type full", "adapters alone are trained"),
        ("sft --task_type seq_cls", "--head sequence_classification"),
        ("sft --task_type embedding", "others have no term"),
        ("rlhf --rlhf_type gkd", "expected one of dpo, kto, orpo, cpo, simpo, rm, grpo"),
        ("rlhf --rlhf_type ppo", "ask for the policy without it"),
        ("sft --micro_batch_size 2", "it is one of megatron sft and pt"),
        ("sft other.yaml", "a file that was handed in too"),
        ("sft --deepspeed configs/zero2.json", "or a file that was handed in too"),
        ("sft --gradient_checkpointing_kwargs 5x", "expected a JSON object"),
    ],
)
def test_what_has_no_model_is_refused(words: str, refusal: str) -> None:
    """With what would be right."""
    with pytest.raises(LaunchFormatError, match=refusal):
        _import(words)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_every_argument_is_accounted_for(name: str) -> None:
    """Read, without effect, or ignored with a reason."""
    value = _CHOICES.get(name, "1")
    kind = "rlhf --rlhf_type grpo" if name != "rlhf_type" else "rlhf"
    command = f"NPROC_PER_NODE=2 swift {kind} --model a/b --dataset x --{name} {value}"

    imported = import_launch(command=command)

    read = {key.key for key in imported.read}
    assert f"--{name}" in read | {*imported.without_effect} | {*imported.ignored}
    if f"--{name}" in imported.ignored:
        assert any(f"--{name} is ignored: " in warning for warning in imported.warnings)


def test_its_question_has_an_answer() -> None:
    """Nothing is missing, and nobody refuses it."""
    question = ask_command(
        "swift sft --model qwen2.5-7b --dataset x --max_length 2048", gpu="H100-SXM5-80GB"
    )

    assert (question.missing, question.refusal) == ((), None)
