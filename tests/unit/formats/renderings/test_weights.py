"""Commands load a checkpoint that exists and is the one that was asked for, or leave it to who
knows it, and say so.
"""

import json
import shlex
import subprocess
from dataclasses import replace

import pytest

from service.estimator.values.layout import Layout
from service.estimator.values.speculative import Speculative
from service.estimator.values.workload import Engine, Quantization, ServeWorkload
from service.formats.renderings.render import make_launch, render
from service.formats.renderings.text import render_shell_line
from tests.unit.formats.renderings.builders import a_job, flags_of

CHAT = ServeWorkload(num_sequences=8, prompt_tokens=512, engine=Engine.VLLM)
CHECKPOINT = "meta-llama/Llama-2-7b-chat-hf"
SERVERS = [Engine.VLLM, Engine.SGLANG, Engine.TENSORRT_LLM]


@pytest.mark.parametrize("engine", SERVERS)
def test_servers_load_the_checkpoint_that_was_asked_for(engine: Engine) -> None:
    """The id on the hub, and not our name of its shape, which no hub has; there is nothing more to
    say of it.
    """
    launch = make_launch(
        replace(a_job(replace(CHAT, engine=engine), Layout()), checkpoints=(CHECKPOINT,))
    )

    assert CHECKPOINT in launch.command
    assert launch.notes == ()


@pytest.mark.parametrize("engine", SERVERS)
def test_a_checkpoint_that_nobody_named_is_left_to_the_environment(engine: Engine) -> None:
    """The shell stops instead of serving something else, and a note says what to set."""
    job = a_job(replace(CHAT, engine=engine), Layout())
    command = render_shell_line(make_launch(job).command)

    assert '"${CHECKPOINT:?}"' in command
    assert any("set CHECKPOINT" in note for note in make_launch(job).notes)
    ran = subprocess.run(
        ["sh", "-c", f"echo {command}"],  # noqa: S607 - the one of PATH
        env={},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode != 0, ran.stdout) == (True, "")
    assert "CHECKPOINT" in ran.stderr


def test_names_of_one_shape_are_told() -> None:
    """A name of the catalogue stands for several checkpoints: the first is loaded, and the others
    are there to choose.
    """
    launch = make_launch(
        replace(a_job(CHAT, Layout()), checkpoints=("meta-llama/Llama-2-7b-hf", CHECKPOINT))
    )

    assert launch.command[:3] == ("vllm", "serve", "meta-llama/Llama-2-7b-hf")
    assert any(CHECKPOINT in note for note in launch.notes)


def test_weights_that_were_packed_beforehand_are_another_checkpoint() -> None:
    """Published 16-bit weights are no AWQ: the command loads neither them nor a guess."""
    job = replace(
        a_job(replace(CHAT, quantization=Quantization.AWQ_INT4), Layout()),
        checkpoints=(CHECKPOINT,),
    )
    launch = make_launch(job)

    assert CHECKPOINT not in launch.command
    assert any("awq_int4" in note and "CHECKPOINT" in note for note in launch.notes)


def test_a_draft_is_loaded_by_its_checkpoint() -> None:
    """The draft's id stands in vLLM's JSON, which a shell hands on as it was meant; one that nobody
    named is left to it.
    """
    asked = replace(CHAT, speculative=Speculative(num_tokens=3, config="{}"))
    job = replace(a_job(asked, Layout()), checkpoints=(CHECKPOINT,))
    known = make_launch(replace(job, draft_checkpoints=("JackFram/llama-68m",)))
    unknown = make_launch(job)

    assert (
        json.loads(flags_of(known.command)["speculative_config"])["model"] == "JackFram/llama-68m"
    )
    assert any("set DRAFT" in note for note in unknown.notes)
    line = f"printf '%s\\n' {render_shell_line(unknown.command)}"
    ran = subprocess.run(
        ["sh", "-c", line],  # noqa: S607 - the one of PATH
        env={"DRAFT": "d"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(ran.stdout.splitlines()[-1]) == {"model": "d", "num_speculative_tokens": 3}
    assert len(shlex.split(line)) == len(unknown.command) + 2


def test_an_engine_that_is_told_of_no_draft_says_so() -> None:
    """What was evaluated and is in no flag stands in a note."""
    asked = replace(CHAT, engine=Engine.SGLANG, speculative=Speculative(num_tokens=3))

    assert any("ahead" in note for note in make_launch(a_job(asked, Layout())).notes)


def test_llama_cpp_loads_a_file_that_is_made_of_the_checkpoint() -> None:
    """No hub has the file, so that a note says what it is made of."""
    asked = replace(CHAT, engine=Engine.LLAMA_CPP, quantization=Quantization.Q4_K_M)
    found = render(replace(a_job(asked, Layout()), checkpoints=(CHECKPOINT,)))["launch"]

    assert isinstance(found, dict)
    assert any(CHECKPOINT in note for note in found["notes"])
