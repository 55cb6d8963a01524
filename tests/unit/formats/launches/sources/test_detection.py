"""Launchers told by what is handed in: asked for where another's step may be meant."""

import pytest

from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.launch import Launcher
from tests.unit.formats.launches.importing import get_part, import_launch

PREFERENCES = "model_name_or_path: a/b\noutput_dir: o\nlearning_rate: 1e-6\nbeta: 0.01\n"
STRANGE = "python mine.py --use_vllm --num_gpus 8 --pack_length 4096 --stop_strings x --mixer y"


@pytest.mark.parametrize(
    ("files", "command"),
    [
        ({"dpo.yaml": PREFERENCES}, ""),
        ({}, "python train.py --model_name_or_path a/b --output_dir o --max_prompt_length 512"),
    ],
)
def test_arguments_of_preferences_are_no_plain_training(
    files: dict[str, str], command: str
) -> None:
    """A reference or a rollout beside the model would be left out in silence."""
    with pytest.raises(LaunchFormatError, match="one of trl_dpo, trl_kto, trl_orpo, trl_cpo"):
        import_launch(files, command=command)


def test_a_named_launcher_is_taken_at_its_word() -> None:
    """Whoever says which trainer it is need not be asked."""
    imported = import_launch({"dpo.yaml": PREFERENCES}, launcher=Launcher.TRL_DPO)

    assert get_part(imported, "workload")["trainer"] == "dpo"


@pytest.mark.parametrize("program", ["run_dpo.py", "train_dpo.py", "trl.scripts.dpo"])
def test_what_people_call_their_scripts_tells_the_trainer(program: str) -> None:
    """TRL's own names with the usual words before them, and its modules."""
    imported = import_launch({"dpo.yaml": PREFERENCES}, command=f"python -m {program} dpo.yaml")

    assert imported.launcher is Launcher.TRL_DPO


@pytest.mark.parametrize(
    ("program", "launcher"),
    [
        ("examples/scripts/orpo.py", Launcher.TRL_ORPO),
        ("run_orpo.py", Launcher.TRL_ORPO),
        ("cpo.py", Launcher.TRL_CPO),
        ("run_simpo.py", Launcher.TRL_CPO),
    ],
)
def test_scripts_of_pairs_without_a_reference_tell_their_trainer(
    program: str, launcher: Launcher
) -> None:
    """They were refused as trainers without a model here."""
    command = f"python {program} --model_name_or_path a/b --learning_rate 1e-6"

    assert import_launch(command=command).launcher is launcher


@pytest.mark.parametrize("program", ["run_bco.py", "train_ppo.py", "trl.scripts.distillation"])
def test_scripts_of_other_trainers_are_refused(program: str) -> None:
    """The refusal names what the script trains by."""
    with pytest.raises(LaunchFormatError, match="which has no model here"):
        import_launch(command=f"python -m {program} --model_name_or_path a/b")


def test_a_critic_is_asked_by_itself() -> None:
    """PPO's refusal says what its models are, and what to ask."""
    with pytest.raises(LaunchFormatError, match=r"a value model.*the critic by itself"):
        import_launch(command="trl ppo --model_name_or_path a/b")


@pytest.mark.parametrize("line", ["import nemo_run as run", "from nemo.collections import llm"])
def test_a_recipe_in_python_is_refused(line: str) -> None:
    """It says what is read in its place; the program is not run."""
    with pytest.raises(LaunchFormatError, match=r"in Python that is not run here; hand in its"):
        import_launch({"pretrain.py": f"{line}\nrecipe = make()\n"})


def test_a_recipe_by_name_has_degrees_of_its_own() -> None:
    """What stands beside it is read; the rest is asked for."""
    imported = import_launch(
        command="nemo llm pretrain --factory llama3_70b trainer.devices=8 "
        "trainer.strategy.pipeline_model_parallel_size=2"
    )

    asked = {question.field for question in imported.questions}
    assert {"layout.tensor_parallel", "layout.context_parallel"} <= asked
    assert "layout.pipeline_parallel" not in asked


def test_a_name_of_a_pattern_is_taken_at_its_word() -> None:
    """A script that is called as a trainer's examples are is that trainer's."""
    imported = import_launch(command=STRANGE.replace("mine.py", "dpo_mine.py --beta 1"))

    assert imported.launcher is Launcher.TRL_DPO


def test_options_that_are_mostly_foreign_are_another_programs() -> None:
    """One option in common does not make a script TRL's."""
    refusal = r"mine.py: 4 of its 5 options are none of trl_grpo's, such as --num_gpus, "

    with pytest.raises(LaunchFormatError, match=refusal):
        import_launch(command=STRANGE)


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("megatron rlhf", "preferences and policies on Megatron-LM have no term"),
        ("deepspeed --num_gpus 2 --module swift.cli.deploy", "it runs its own generate"),
        ("xtuner train", "XTuner's configurations have no reader here"),
        ("ollama run", "ask of llama-server"),
        ("somebodys train", "somebodys .*no launcher is known by it"),
        ("sbatch --nodes 2 a/train.sbatch", "runs train.sbatch, which was not handed in"),
        ("bash run.sh 8", "runs run.sh, which was not handed in"),
        ("sbatch -N1 --gpus=4 : -N2 --gpus=8 train.sh", "another component of a heterogeneous job"),
        ("docker run --gpus all nvcr.io/nim/meta/llama:1.0", "starts a program of its own"),
    ],
)
def test_a_command_of_another_program_is_refused_in_words(program: str, reason: str) -> None:
    """Options in common tell a script by its libraries, not a program of another name."""
    options = "" if "docker" in program else "--model a/b --output_dir o --learning_rate 1e-4"

    with pytest.raises(LaunchFormatError, match=reason):
        import_launch(command=f"{program} {options}")


def test_a_script_that_submits_another_asks_for_it() -> None:
    """The place that runs it is named."""
    text = "#!/bin/bash\nfor lr in 1 2; do sbatch train.sbatch $lr; done\n"

    with pytest.raises(LaunchFormatError, match=r"a.sh:2: runs train.sbatch, which was not"):
        import_launch({"a.sh": text})


def test_a_config_of_trl_is_handed_in_beside_its_command() -> None:
    """Its arguments are read, and without the file nobody knows them."""
    command = "trl dpo --config recipes/dpo.yaml --num_processes 1"

    imported = import_launch({"dpo.yaml": PREFERENCES}, command=command)

    assert imported.question["model"] == "a/b"
    assert not imported.ignored
    with pytest.raises(
        LaunchFormatError, match=r"names recipes/dpo\.yaml, which was not handed in"
    ):
        import_launch(command=command)


def test_a_comma_is_a_letter_of_a_layers_name() -> None:
    """PEFT adapts the last of them alone, as TRL's own examples are written."""
    command = "trl sft --model_name_or_path a/b --use_peft --lora_target_modules q_proj, v_proj"

    imported = import_launch(command=command)

    assert get_part(imported, "workload")["lora"]["target_modules"] == ["v_proj"]
    assert any("q_proj, is no layer's name" in warning for warning in imported.warnings)
    with pytest.raises(LaunchFormatError, match="names parted by blanks alone"):
        import_launch(command=command.removesuffix(" v_proj"))


@pytest.mark.parametrize(
    "command",
    [
        "python -m fastchat.serve.model_worker --model-path a/b --dtype bfloat16",
        "python -m huggingfaceserver --model_id a/b --model_name llama",
        "python main.py --model hf-causal --batch_size 1 --device cuda:0",
    ],
)
def test_options_of_engines_are_no_engine(command: str) -> None:
    """These scripts serve and evaluate by transformers; they were SGLang's and TGI's."""
    with pytest.raises(LaunchFormatError, match="no launcher is known by it"):
        import_launch(command=command)


def test_a_switch_of_attention_is_no_factorys() -> None:
    """FastChat's scripts have one of that name, which was LLaMA-Factory's choice."""
    command = "python train_lora.py --model_name_or_path a/b --output_dir o --flash_attn False"

    assert import_launch(command=command).launcher is Launcher.TRAINER


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        (
            "model: {_component_: torchtune.models.llama3_1.lora_llama3_1_8b}\noutput_dir: o\n",
            r"model\._component_ names an object that torchtune builds",
        ),
        (
            "output_dir: o\nlearning_rate: 1e-4\ntasks: a\nevals: b\nlimit: 1\nverbosity: INFO\n",
            "4 of its 6 keys are none of trainer's, such as tasks, evals",
        ),
    ],
)
def test_files_of_other_programs_are_refused(text: str, refusal: str) -> None:
    """A key or two in common made them the full training of a model that was asked for."""
    with pytest.raises(LaunchFormatError, match=refusal):
        import_launch({"8B_lora.yaml": text})


@pytest.mark.parametrize(
    ("files", "command"),
    [
        ({}, "python qlora.py --model_name_or_path a/b --output_dir o --do_train False"),
        ({}, "python run_glue.py --model_name_or_path a/b --output_dir o --do_predict"),
        ({"p.yaml": "model_name_or_path: a/b\nstage: sft\ndo_predict: true\n"}, ""),
    ],
)
def test_what_trains_nothing_is_no_training(files: dict[str, str], command: str) -> None:
    """Predictions were answered as the training of all weights."""
    with pytest.raises(LaunchFormatError, match="nothing is trained so"):
        import_launch(files, command=command)
