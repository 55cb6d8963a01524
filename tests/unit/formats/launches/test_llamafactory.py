"""LLaMA-Factory's files, as the trainers that they stand for."""

from pathlib import Path
from typing import Any

import pytest

from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.launch import Launcher
from tests.unit.formats.launches.importing import get_part, import_launch

FILES = Path(__file__).parent / "files"
SFT = (FILES / "llamafactory_qwen3_lora_sft.yaml").read_text(encoding="utf-8")
BASE = "model_name_or_path: m\nfinetuning_type: lora\ntemplate: llama3\n"


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        (
            "lora_sft",
            {"method": "lora", "sequence_length": 2048, "precision": "bf16_autocast"},
        ),
        (
            "lora_dpo",
            {"trainer": "dpo", "reference": "adapters_off", "loss": "full_logits"},
        ),
        (
            "lora_kto",
            {"trainer": "kto", "reference": "adapters_off", "loss": "full_logits"},
        ),
        ("lora_reward", {"trainer": "reward", "method": "lora"}),
        ("full_sft", {"method": "full", "precision": "bf16_mixed"}),
        (
            "lora_sft_otfq",
            {"method": "qlora", "quantization_bits": 4, "double_quantization": True},
        ),
        ("lora_pretrain", {"method": "lora", "gradient_accumulation_steps": 8}),
    ],
)
def test_examples_ask_what_they_run(name: str, fields: dict[str, Any]) -> None:
    """Layers are recomputed unless it is turned off, with reentrant checkpoints."""
    file = FILES / f"llamafactory_qwen3_{name}.yaml"

    imported = import_launch({file.name: file.read_text(encoding="utf-8")})

    assert (imported.launcher, imported.ignored) == (Launcher.LLAMAFACTORY, ())
    expected = fields | {"activation_checkpointing": "full", "reentrant_checkpointing": True}
    workload = get_part(imported, "workload")
    assert {field: workload.get(field) for field in expected} == expected


def test_the_examples_deepspeed_file_is_known_by_its_name() -> None:
    """``ds_z3_config.json`` comes with the project; the number of GPUs is asked."""
    file = FILES / "llamafactory_qwen3_full_sft.yaml"

    imported = import_launch({file.name: file.read_text(encoding="utf-8")})

    layout = get_part(imported, "layout")
    assert (layout["sharding"], layout["zero_stage"]) == ("deepspeed", 3)
    assert "layout.data_parallel" in {question.field for question in imported.questions}


def test_full_training_without_deepspeed_trains_fp32_weights() -> None:
    """Trained weights are cast to fp32 whatever they were loaded in, but for pure_bf16."""
    text = "model_name_or_path: m\nfinetuning_type: full\ntemplate: llama3\n"

    cast = import_launch({"a.yaml": f"{text}bf16: true\n"})
    pure = import_launch({"a.yaml": f"{text}pure_bf16: true\n"})

    assert get_part(cast, "workload")["precision"] == "amp_bf16"
    assert get_part(pure, "workload")["precision"] == "bf16"


def test_the_command_wins_over_its_file() -> None:
    """Options are ``key=value`` behind the file; the environment says how many GPUs."""
    imported = import_launch(
        {"sft.yaml": SFT},
        "NPROC_PER_NODE=4 llamafactory-cli train sft.yaml per_device_train_batch_size=2",
    )

    assert get_part(imported, "workload")["micro_batch_size"] == 2
    assert get_part(imported, "layout")["data_parallel"] == 4


def test_options_alone_are_a_launch() -> None:
    """The documentation's shell script has no file."""
    imported = import_launch(
        command="llamafactory-cli train --model_name_or_path m --stage sft --do_train "
        "--finetuning_type lora --template llama3 --use_unsloth true --bf16"
    )

    workload = get_part(imported, "workload")
    assert (workload["kernels"], workload["lora"]["rank"]) == ("unsloth", 8)


@pytest.mark.parametrize(
    ("lines", "refusal"),
    [
        ("stage: ppo", "a.yaml:4: stage is 'ppo'; expected one of sft, pt, dpo, kto, rm"),
        ("stage: dpo\npref_loss: cpo", "a.yaml:5: pref_loss is 'cpo'; expected one of sigmoid"),
        ("quantization_bit: 3", "a.yaml:4: quantization_bit is 3; expected one of 4, 8"),
        ("flash_attn: fa4", "a.yaml:4: flash_attn is 'fa4'; expected one of auto, disabled"),
        ("stage: pt\nneat_packing: true", "a.yaml:5: neat_packing is True; expected false"),
        ("cutoff_len: long", "a.yaml:4: cutoff_len is 'long'; expected a whole number"),
    ],
)
def test_bad_values_are_refused_where_they_stand(lines: str, refusal: str) -> None:
    """The refusal names file and line, and what would be right."""
    with pytest.raises(LaunchFormatError, match=refusal):
        import_launch({"a.yaml": f"{BASE}{lines}\n"})


@pytest.mark.parametrize(
    ("lines", "reference"),
    [
        ("pref_loss: orpo", "precomputed"),
        ("pref_loss: simpo", "precomputed"),
        ("pref_loss: ipo", "adapters_off"),
        ("ref_model: a/b", "model"),
    ],
)
def test_a_loss_says_whether_there_is_a_reference(lines: str, reference: str) -> None:
    """ORPO and SimPO run none, and one that is named is a second model beside adapters too."""
    imported = import_launch({"a.yaml": f"{BASE}stage: dpo\n{lines}\n"})

    assert get_part(imported, "workload")["reference"] == reference
    assert imported.ignored == ()
