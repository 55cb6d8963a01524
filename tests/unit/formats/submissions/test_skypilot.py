"""Tasks of SkyPilot: texts as its 0.14.1 writes them to an admin policy."""

import pytest
import yaml

from service.formats.launches.values.errors import LaunchFormatError
from service.formats.submissions.skypilot import (
    change_task,
    name_question,
    read_task,
    read_user,
    write_task,
)
from service.formats.submissions.submission import GpuRequest, SubmissionError

# `Task.to_yaml_config` of a task with `accelerators: A100-80GB:1` and two nodes.
TASK = """name: t

resources:
  accelerators:
    A100-80GB: 1

num_nodes: 2

run: torchrun x.py

envs:
  HEADROOM_QUESTION: llama-3.2-1b --task train

file_mounts: {}

volumes: {}

_user_specified_yaml: "name: t\\n\\nresources:\\n  accelerators: A100-80GB:1\\n\\nnum_nodes:\\
  \\ 2\\n\\nrun: torchrun x.py\\n"
"""
# The same of `accelerators: [A100:8, H100:4]`.
CHOICE = """resources:
  ordered:
  - accelerators:
      A100: 8
  - infra: kubernetes
    accelerators:
      H100: 4

num_nodes: 1

run: echo
"""


def test_a_task_says_its_gpus_and_its_question() -> None:
    """On each node as many as its accelerators, of SkyPilot's name."""
    job = read_task(TASK, user="ann").submission

    assert (job.scheduler, job.name, job.user) == ("skypilot", "t", "ann")
    assert job.gpus == GpuRequest(per_node=1, num_nodes=2, names=("A100-80GB",))
    assert job.note == "llama-3.2-1b --task train"
    assert job.script == "torchrun x.py"
    assert not job.can_change


def test_of_a_choice_it_is_the_fewest_of_any() -> None:
    """What holds for them holds for whichever it gets, and no number of it is changed."""
    job = read_task(CHOICE).submission

    assert job.gpus == GpuRequest(per_node=4, names=("A100", "H100"))
    assert not job.can_change


@pytest.mark.parametrize(
    ("accelerators", "gpus"),
    [
        ("A100:8", ("A100", 8)),
        ("H100", ("H100", 1)),
        ("{V100: 2}", ("V100", 2)),
        ("{L4: null}", ("L4", 1)),
        ("[A100:8, A100:4]", ("A100", 4)),
        ("{tpu-v5e-8: 1}", None),
        ("{T4: 0.5}", None),
        ("A100:many", None),
        ("null", None),
        ("8", None),
    ],
)
def test_accelerators_are_read_in_every_form(
    accelerators: str, gpus: tuple[str, int] | None
) -> None:
    """As users and SkyPilot write them; what is no number of GPUs asks for none."""
    job = read_task(f"resources:\n  accelerators: {accelerators}\n").submission

    expected = None if gpus is None else GpuRequest(per_node=gpus[1], names=(gpus[0],))
    assert job.gpus == expected


@pytest.mark.parametrize("number", ["9" * 5000, "-1", "1.5", "٣", "²"])
def test_what_is_no_number_of_gpus_is_none(number: str) -> None:
    """Digits without end least of all."""
    text = yaml.safe_dump({"resources": {"accelerators": f"A100:{number}"}})

    assert read_task(text).submission.gpus is None


def test_another_number_changes_nothing_else() -> None:
    """The task comes back as YAML that says all that it said."""
    text = TASK.replace("num_nodes: 2", "num_nodes: 1").replace("echo", "echo 'ü 🚀'")
    task = read_task(text)

    changed = yaml.safe_load(write_task(change_task(task, 4)))

    expected = yaml.safe_load(text)
    expected["resources"]["accelerators"] = {"A100-80GB": 4}
    assert task.submission.can_change
    assert changed == expected


@pytest.mark.parametrize("envs", ["[x]", "{A: b}", "null"])
def test_a_question_is_named_beside_its_variables(envs: str) -> None:
    """A list of them, which SkyPilot itself never sends, stays as it is."""
    document = name_question(read_task(f"envs: {envs}\nrun: echo\n"), "0" * 32).document

    before = yaml.safe_load(envs)
    named = {**(before if envs == "{A: b}" else {}), "HEADROOM_QUESTION_DIGEST": "0" * 32}
    assert document == {"envs": before if envs == "[x]" else named, "run": "echo"}


def test_a_choice_is_not_changed() -> None:
    """Which of them would have that number is not known."""
    with pytest.raises(SubmissionError, match="choice"):
        change_task(read_task(CHOICE), 8)


@pytest.mark.parametrize("text", ["- a\n- b\n", "a: [", "a: &x [*x]", "[" * 5000])
def test_what_is_no_task_is_refused(text: str) -> None:
    """By a reason, whatever a stranger sends."""
    with pytest.raises(LaunchFormatError):
        read_task(text)


def test_an_empty_task_asks_for_nothing() -> None:
    """SkyPilot shows controllers and tasks of CPUs too."""
    job = read_task("").submission

    assert job.gpus is None
    assert not job.has_question


@pytest.mark.parametrize(
    ("text", "user"), [("", None), ("id: 1a2b\nname: ann\n", "ann"), ("id: 1a2b\n", "1a2b")]
)
def test_a_user_has_a_name_where_the_server_asks(text: str, user: str | None) -> None:
    """A client's machine says none."""
    assert read_user(text) == user
