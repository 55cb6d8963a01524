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
