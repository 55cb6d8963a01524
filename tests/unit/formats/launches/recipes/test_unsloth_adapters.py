"""What Unsloth's ``get_peft_model`` and ``full_finetuning`` make of a model."""

import pytest

from service.formats.launches.values.errors import LaunchFormatError
from tests.unit.formats.launches.importing import get_part, import_launch

SCRIPT = """\
from unsloth import FastLanguageModel
from trl import SFTTrainer
model, tokenizer = FastLanguageModel.from_pretrained(
    model_name="unsloth/Llama-3.2-1B-Instruct", max_seq_length=4096, load_in_4bit=True
)
model = FastLanguageModel.get_peft_model(model, r=32, target_modules=["q_proj", "v_proj"])
trainer = SFTTrainer(model=model)
"""


@pytest.mark.parametrize(
    ("arguments", "targets", "ignored"),
    [
        ("finetune_mlp_modules=False", ["q_proj", "k_proj", "v_proj", "o_proj"], ()),
        ("finetune_attention_modules=False", ["gate_proj", "up_proj", "down_proj"], ()),
        ("finetune_mlp_modules=False, target_modules=['o_proj', 'up_proj']", ["o_proj"], ()),
        ("finetune_mlp_modules=False, target_modules='all-linear'", "all-linear", ()),
        ("finetune_mlp_modules=True, target_modules=['up_proj']", ["up_proj"], ()),
        (
            "finetune_vision_layers=True, target_modules=['q_proj']",
            ["q_proj"],
            ("finetune_vision_layers",),
        ),
        ("finetune_vision_layers=False, target_modules=['q_proj']", ["q_proj"], ()),
        ("finetune_language_layers=True, target_modules=['q_proj']", ["q_proj"], ()),
    ],
)
def test_switches_say_which_layers_have_adapters(
    arguments: str, targets: object, ignored: tuple[str, ...]
) -> None:
    """A list of names is cut by them, and ``all-linear`` turns them on."""
    script = SCRIPT.replace('target_modules=["q_proj", "v_proj"]', arguments)

    imported = import_launch({"train.py": script})

    assert get_part(imported, "workload")["lora"]["target_modules"] == targets
    assert imported.ignored == ignored


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        ("finetune_language_layers=False", "images or sound alone"),
        ("finetune_attention_modules=False", "adapters are left"),
    ],
)
def test_switches_that_leave_no_adapters_are_refused(arguments: str, refusal: str) -> None:
    """Only layers of the text have a model here."""
    script = SCRIPT.replace("r=32", f"r=32, {arguments}")

    with pytest.raises(LaunchFormatError, match=refusal):
        import_launch({"train.py": script})


@pytest.mark.parametrize(
    ("arguments", "recomputed", "offload"),
    [
        ("", "full", {"activations": "cpu"}),
        (", use_gradient_checkpointing=False", "none", None),
        (", use_gradient_checkpointing=True", "full", None),
    ],
)
def test_full_finetuning_adapts_nothing(arguments: str, recomputed: str, offload: object) -> None:
    """The call has no effect, and ``from_pretrained`` says what is recomputed."""
    script = SCRIPT.replace("load_in_4bit=True", f"full_finetuning=True{arguments}")

    imported = import_launch({"train.py": script})

    workload = get_part(imported, "workload")
    assert (workload["method"], workload.get("lora")) == ("full", None)
    assert (workload["activation_checkpointing"], workload.get("offload")) == (recomputed, offload)
    assert {"r", "target_modules"} <= set(imported.without_effect)


def test_inputs_of_short_rows_stay_on_the_gpu() -> None:
    """Unsloth moves them from 512 tokens on."""
    script = SCRIPT.replace("max_seq_length=4096", "max_seq_length=256")

    imported = import_launch({"train.py": script})

    assert "offload" not in get_part(imported, "workload")
