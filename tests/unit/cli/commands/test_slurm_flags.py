"""``headroom slurm-flags``: what sbatch is told, and what it refuses where nothing fits."""

import json
from pathlib import Path

import pytest

from service.__main__ import main
from service.cli.command_table import REFUSALS
from service.cli.commands.schedulers.slurm_flags import list_options
from service.terminal.arguments import UsageError

REFUSAL = REFUSALS["slurm-flags"]
TRAIN = ("--gpu", "A100-SXM4-80GB", "--task", "train", "--sequence-length", "1024", "--offline")
LAUNCH = ("llama-3.2-1b", "--gpu", "A100-SXM4-80GB", "--sequence-length", "1024", "--offline", "--")


def test_the_fewest_gpus_are_options_of_sbatch(capsys: pytest.CaptureFixture[str]) -> None:
    """One line of options on stdout; the command for that many GPUs is on stderr."""
    code = main(["slurm-flags", "llama-2-7b", *TRAIN, "--max-gpus", "8"])

    captured = capsys.readouterr()
    assert code == 0
    assert captured.out == (
        "--nodes=1 --ntasks-per-node=1 --gres=gpu:nvidia_a100-sxm4-80gb:2 "
        "--cpus-per-task=8 --mem=32768M\n"
    )
    assert "a job on 2 GPUs runs: torchrun --standalone --nproc-per-node=2" in captured.err


def test_files_that_the_command_reads_are_named_and_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Torchrun would end without them. What another wrote stays, and no job runs."""
    folder = tmp_path / "launch"
    words = ["slurm-flags", "llama-2-7b", *TRAIN, "--max-gpus", "8"]
    main(words)
    named = capsys.readouterr().err
    code = main([*words, "--write-files", str(folder)])
    written = capsys.readouterr()
    config = folder / "deepspeed_config.json"
    stage = json.loads(config.read_text())["zero_optimization"]["stage"]
    config.write_text("{}")
    refused = main([*words, "--write-files", str(folder)])

    assert named.endswith(
        "--deepspeed deepspeed_config.json; "
        "it reads deepspeed_config.json, written with --write-files .\n"
    )
    assert (code, stage) == (0, 3)
    assert written.err.endswith(f"; it reads deepspeed_config.json, written in {folder}\n")
    assert (refused, config.read_text()) == (2, "{}")
    captured = capsys.readouterr()
    assert captured.out == f"{REFUSAL}\n"
    assert f"{config} is there already, with another text" in captured.err


def test_a_launch_on_several_gpus_is_answered_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """Its command is in the job already: options for fewer GPUs would not start it."""
    command = "torchrun --nproc-per-node=4 train.py --per_device_train_batch_size 1 --bf16 true"
    code = main(["slurm-flags", *LAUNCH, *command.split()])

    captured = capsys.readouterr()
    assert code == 0
    assert "--gres=gpu:nvidia_a100-sxm4-80gb:4 " in captured.out
    assert "a job on" not in captured.err


def test_sbatch_refuses_where_nothing_fits(capsys: pytest.CaptureFixture[str]) -> None:
    """A shell forgets the exit status of what it substitutes, so that the word has to refuse."""
    code = main(["slurm-flags", "llama-2-70b", *TRAIN, "--max-gpus", "1"])

    captured = capsys.readouterr()
    assert (code, captured.out) == (1, f"{REFUSAL}\n")
    assert "headroom: llama-2-70b does not fit: max_gpus is 1" in captured.err


def test_sbatch_refuses_a_launch_that_leaves_something_open(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No default stands in for the tokens of a request."""
    code = main(
        ["slurm-flags", "--gpu", "L4", "--offline", "--", "vllm", "serve", "Qwen/Qwen2.5-7B"]
    )

    captured = capsys.readouterr()
    assert (code, captured.out) == (2, f"{REFUSAL}\n")
    assert "the launch does not say --num-sequences" in captured.err


def test_a_script_that_nobody_knows_is_told_by_a_flag(capsys: pytest.CaptureFixture[str]) -> None:
    """Words of the message are those of this command, and are enough."""
    words = ("torchrun", "--nproc-per-node=2", "train.py")
    refused = main(["slurm-flags", *LAUNCH, *words])
    said = capsys.readouterr()
    told = main(["slurm-flags", "--launcher", "trainer", *LAUNCH, *words])

    assert (refused, said.out, told) == (2, f"{REFUSAL}\n", 0)
    assert "no launcher is known by it; say --launcher: one of trainer, " in said.err
    assert "--gres=gpu:nvidia_a100-sxm4-80gb:2 " in capsys.readouterr().out


def test_sbatch_refuses_what_a_server_did_not_answer(capsys: pytest.CaptureFixture[str]) -> None:
    """An empty line in place of the options would be a job without GPUs."""
    code = main(["slurm-flags", "llama-2-7b", *TRAIN[:-1], "--server", "http://127.0.0.1:1"])

    captured = capsys.readouterr()
    assert (code, captured.out) == (2, f"{REFUSAL}\n")
    assert "no server answers" in captured.err


@pytest.mark.parametrize("wrong", [("--bogus", "1"), ("--max-gpus", "many")])
def test_sbatch_refuses_a_word_that_is_wrong(
    capsys: pytest.CaptureFixture[str], wrong: tuple[str, str]
) -> None:
    """An argument that nobody knows, and one that is no number."""
    with pytest.raises(UsageError):
        main(["slurm-flags", "llama-2-7b", *TRAIN, *wrong])

    assert capsys.readouterr().out == f"{REFUSAL}\n"


def test_a_jobs_name_is_its_own() -> None:
    """Directives that ask for resources are options; a name is the script's to give."""
    script = "#!/bin/bash\n#SBATCH --job-name=a\n#SBATCH --nodes=2\n#SBATCH --array=0-2\n\nsrun b\n"

    assert list_options(script) == ("--nodes=2", "--array=0-2")
