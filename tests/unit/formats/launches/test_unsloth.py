"""Unsloth's scripts, read and never run."""

import pytest

from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.launch import Launcher
from tests.unit.formats.launches.importing import get_part, import_launch

SCRIPT = """\
from unsloth import FastLanguageModel
from trl import SFTTrainer, SFTConfig
max_seq_length = 4096
raise SystemExit("a script that is run would end here")
model, tokenizer = FastLanguageModel.from_pretrained(
    model_name="unsloth/Llama-3.2-1B-Instruct", max_seq_length=max_seq_length, load_in_4bit=True
)
model = FastLanguageModel.get_peft_model(
    model, r=32, target_modules=["q_proj", "v_proj"], use_gradient_checkpointing="unsloth"
)
trainer = SFTTrainer(
    model=model,
    args=SFTConfig(per_device_train_batch_size=2, gradient_accumulation_steps=4, optim="adamw_8bit",
                   gradient_checkpointing=False),
)
"""


def test_keyword_arguments_of_its_calls_are_the_question() -> None:
    """A name that is assigned once stands for its value, and nothing is run."""
    imported = import_launch({"train.py": SCRIPT}, launcher=Launcher.UNSLOTH)

    workload = get_part(imported, "workload")
    assert imported.question["model"] == "unsloth/Llama-3.2-1B-Instruct"
    assert (workload["kernels"], workload["method"]) == ("unsloth", "qlora")
    assert (workload["sequence_length"], workload["micro_batch_size"]) == (4096, 2)
    assert workload["lora"] == {"rank": 32, "target_modules": ["q_proj", "v_proj"]}
    assert workload["activation_checkpointing"] == "full"
    assert workload["offload"] == {"activations": "cpu"}


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("model = (", "train.py:1: is not Python"),
        (SCRIPT.replace("r=32", "r='many'"), "train.py:9: r is 'many'; expected a whole number"),
    ],
)
def test_bad_scripts_are_refused_where_they_stand(text: str, refusal: str) -> None:
    """The refusal names file and line."""
    with pytest.raises(LaunchFormatError, match=refusal):
        import_launch({"train.py": text}, launcher=Launcher.UNSLOTH)


def test_an_import_tells_the_launcher() -> None:
    """A script that imports unsloth needs no launcher beside it."""
    imported = import_launch({"train.py": SCRIPT})

    assert imported.launcher == Launcher.UNSLOTH


def test_a_comment_imports_nothing() -> None:
    """Another script's words about unsloth do not make it one."""
    text = "# from unsloth import FastLanguageModel\nprint('import unsloth')\n"

    with pytest.raises(LaunchFormatError, match="no launcher is known"):
        import_launch({"train.py": text})


def test_the_gpu_that_a_script_asks_has_bf16() -> None:
    """What the script leaves to the GPU is said, and counted as on one that has it."""
    text = SCRIPT.replace(
        "gradient_checkpointing=False", "fp16=not is_bf16_supported(), bf16=is_bf16_supported()"
    )

    imported = import_launch({"train.py": text})

    assert get_part(imported, "workload")["precision"] == "bf16_autocast"
    assert any("asks whether the GPU has bf16" in warning for warning in imported.warnings)


def test_a_second_call_says_nothing_of_the_first() -> None:
    """Scripts load what they trained once more; a name may come without its keyword."""
    text = SCRIPT.replace('model_name="unsloth/Llama-3.2-1B-Instruct"', '"a/b"')
    text += 'FastLanguageModel.from_pretrained(model_name="lora", load_in_8bit=True)\n'
    text += 'AutoTokenizer.from_pretrained(model_name="c/d")\n'

    imported = import_launch({"train.py": text})

    assert imported.question["model"] == "a/b"
    assert get_part(imported, "workload")["quantization_bits"] == 4


@pytest.mark.parametrize(
    ("trainer", "refusal"),
    [
        ("GRPOTrainer", "trains by GRPOTrainer, which has no model here"),
        ("SentenceTransformerTrainer", "trains by SentenceTransformerTrainer, which has no model"),
        ("print", "builds no trainer"),
    ],
)
def test_a_script_without_a_trainer_that_is_known_is_refused(trainer: str, refusal: str) -> None:
    """Another trainer's step is not SFT's, and a script that only generates has none."""
    with pytest.raises(LaunchFormatError, match=refusal):
        import_launch({"train.py": SCRIPT.replace("SFTTrainer(", f"{trainer}(")})


def test_preferences_hold_more_than_tokens() -> None:
    """DPOTrainer's reference is the model with its adapters off."""
    text = SCRIPT.replace("SFTTrainer(", "DPOTrainer(").replace("SFTConfig(", "DPOConfig(")

    workload = get_part(import_launch({"train.py": f"PatchDPOTrainer()\n{text}"}), "workload")

    assert (workload["trainer"], workload["reference"]) == ("dpo", "adapters_off")
