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
        (SCRIPT.replace("FastLanguageModel.from", "AutoModel.from"), "no Fast.*from_pretrained"),
        (SCRIPT.replace('["q_proj", "v_proj"]', "args.names"), "target_modules is 'args.names'"),
        ("".join(f"T{n}Trainer()\n" for n in range(20)), "train.py:17: calls more than 16"),
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


@pytest.mark.parametrize(
    ("said", "precision"),
    [
        ("fp16=not is_bf16_supported(), bf16=is_bf16_supported()", None),
        ("logging_steps=1", None),
        ("bf16=True", "bf16_autocast"),
    ],
)
def test_a_format_that_the_gpu_decides_is_left_to_it(said: str, precision: str | None) -> None:
    """On a T4 Unsloth trains in fp16: its notebooks were counted in bf16 by the math kernel."""
    text = SCRIPT.replace("gradient_checkpointing=False", said)

    imported = import_launch({"train.py": text})

    assert get_part(imported, "workload").get("precision") == precision
    asks = any("asks whether the GPU has bf16" in warning for warning in imported.warnings)
    assert asks is ("is_bf16" in said)


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
        ("GRPOTrainer", "launcher trl_grpo reads GRPOConfig's arguments"),
        ("SentenceTransformerTrainer", "trains by SentenceTransformerTrainer, which has no model"),
        ("print", "builds no trainer"),
        ("SFTTrainer(model), DPOTrainer", "trains by SFTTrainer and DPOTrainer; hand in one"),
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


@pytest.mark.parametrize(
    ("imported_as", "name"),
    [
        ("from unsloth import FastLanguageModel as FLM", "FLM"),
        ("import unsloth", "unsloth.FastLanguageModel"),
        ("import unsloth as u", "u.models.FastLanguageModel"),
    ],
)
def test_classes_are_known_by_other_names(imported_as: str, name: str) -> None:
    """An aliased or qualified loader was not read: the model trained whole."""
    _, _, rest = SCRIPT.partition("\n")
    text = f"{imported_as}\n{rest.replace('FastLanguageModel', name)}"

    imported = import_launch({"train.py": text})

    assert imported.question == import_launch({"train.py": SCRIPT}).question


@pytest.mark.parametrize("terms", ["+".join(["a"] * 600), "a" + ".b" * 1500, "a" + "()" * 1500])
def test_a_deep_expression_is_left_as_it_is(terms: str) -> None:
    """Its source cannot be written without end."""
    text = SCRIPT.replace("optim=", f"learning_rate={terms}, optim=")

    imported = import_launch({"train.py": text})

    assert imported.question == import_launch({"train.py": SCRIPT}).question


@pytest.mark.parametrize(
    ("trainer", "arguments", "length"),
    [
        ("SFT", "max_seq_length=512, max_length=64", 512),
        ("SFT", "max_seq_length=8192", 4096),
        ("SFT", "max_length=64", 4096),
        ("DPO", "max_length=512, max_prompt_length=128", 512),
        ("KTO", "max_seq_length=512", 1024),
        ("ORPO", "max_length=2048, max_completion_length=512", 2048),
        ("Reward", "max_length=512", 512),
    ],
)
def test_the_trainer_says_how_long_rows_are(trainer: str, arguments: str, length: int) -> None:
    """SFT has the smaller of two, preferences what their config says."""
    text = SCRIPT.replace("SFT", trainer).replace("optim=", f"{arguments}, optim=")

    imported = import_launch({"train.py": text})

    assert get_part(imported, "workload")["sequence_length"] == length
    named = {read.key for read in imported.read}
    assert {argument.partition("=")[0] for argument in arguments.split(", ")} <= named


def test_an_older_trl_is_told() -> None:
    """An argument that the newest release lacks is a sign, but not Unsloth's own."""
    versions = [
        import_launch(
            {"train.py": SCRIPT.replace("SFT", trainer).replace("optim=", f"{name}=64, optim=")}
        ).versions["trl"]
        for trainer, name in (("DPO", "max_prompt_length"), ("SFT", "max_seq_length"))
    ]

    assert versions == ["before 1.0", "1.16.0"]


def test_another_trainers_config_is_named() -> None:
    """Its values are not this trainer's."""
    text = SCRIPT.replace("trainer =", "other = DPOConfig(per_device_train_batch_size=64)\nmine =")

    imported = import_launch({"train.py": text})

    assert get_part(imported, "workload")["micro_batch_size"] == 2
    assert imported.ignored == ("per_device_train_batch_size",)


@pytest.mark.parametrize(
    "mapping",
    [
        "cfg = {'per_device_train_batch_size': 64}",
        "cfg = dict(per_device_train_batch_size=64)",
        "a = {'per_device_train_batch_size': 64}\ncfg: dict[str, int] = {**a}",
    ],
)
def test_arguments_of_a_mapping_are_read(mapping: str) -> None:
    """A literal that is assigned once is opened."""
    text = SCRIPT.replace("per_device_train_batch_size=2", "**cfg")

    imported = import_launch({"train.py": f"{mapping}\n{text}"})

    assert get_part(imported, "workload")["micro_batch_size"] == 64
    assert not imported.ignored


@pytest.mark.parametrize(
    "mapping", ["", "cfg = {**cfg}", "cfg = {}\ncfg['a'] = 1", "cfg = {}\ncfg.update(a=1)"]
)
def test_a_mapping_that_nobody_knows_is_named(mapping: str) -> None:
    """What comes from outside, and what is changed, is ignored by its name."""
    text = SCRIPT.replace("per_device_train_batch_size=2", "**cfg")

    imported = import_launch({"train.py": f"{mapping}\n{text}"})

    assert imported.ignored == ("**cfg",)


@pytest.mark.parametrize(
    ("assigned", "name", "model"),
    [
        ("", "args.model", None),
        ("NAME = 'a/b'\nNAME = 'c/d'\n", "NAME", None),
        ("NAME: str = 'a/b'\n", "NAME", "a/b"),
    ],
)
def test_a_model_that_the_script_does_not_spell_is_asked(
    assigned: str, name: str, model: str | None
) -> None:
    """An expression is no model's name."""
    text = SCRIPT.replace('"unsloth/Llama-3.2-1B-Instruct"', name)

    imported = import_launch({"train.py": assigned + text})

    assert imported.question.get("model") == model
    assert ("model" in {question.field for question in imported.questions}) is (model is None)


CELLS = """
import functools
from unsloth import FastLanguageModel
from trl import SFTTrainer

@app.cell
def _():
    max_seq_length = 1024
    return (max_seq_length,)

@app.cell(hide_code=True)
def _(FastLanguageModel, max_seq_length, SFTTrainer):
    model, _ = FastLanguageModel.from_pretrained("a/b", max_seq_length=max_seq_length)
    SFTTrainer(model)
"""


def test_cells_of_a_notebook_share_their_names() -> None:
    """A cell's parameters are what other cells assign."""
    imported = import_launch({"train.py": CELLS})

    assert get_part(imported, "workload")["sequence_length"] == 1024


def test_a_parameter_of_a_function_is_unknown() -> None:
    """Whoever calls it says what it is."""
    with pytest.raises(LaunchFormatError, match="max_seq_length is 'max_seq_length'"):
        import_launch({"train.py": CELLS.replace("@app.cell", "@functools.cache")})


@pytest.mark.parametrize("suffix", ["-bnb-4bit", "-unsloth-bnb-4bit"])
def test_a_packed_checkpoint_is_the_model_that_is_quantised(suffix: str) -> None:
    """Unsloth has a repository of packed weights beside each: its loader makes the same of both."""
    text = SCRIPT.replace("Llama-3.2-1B-Instruct", f"Llama-3.2-1B-Instruct{suffix}")

    assert (
        import_launch({"train.py": text}).question == import_launch({"train.py": SCRIPT}).question
    )


@pytest.mark.parametrize(
    ("words", "loss"), [("", "fused_linear"), ("loss_type='chunked_nll', ", "chunked_nll")]
)
def test_the_loss_is_unsloths_unless_trls_is_asked_for(words: str, loss: str) -> None:
    """Unsloth sets ``nll``, which is the model's forward with its own loss in TRL before 1.16."""
    text = SCRIPT.replace("optim=", f"{words}optim=")

    assert get_part(import_launch({"train.py": text}), "workload")["loss"] == loss
