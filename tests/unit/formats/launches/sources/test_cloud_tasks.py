"""Tasks of SkyPilot and configurations of dstack, read as what they run."""

import pytest

from service.formats.launches.values.errors import LaunchFormatError
from tests.unit.formats.launches.asking import ask, get_layout

SKY = """
name: serve
resources:
  accelerators: {accelerators}
num_nodes: 1
envs:
  MODEL: meta-llama/Llama-2-7b-hf
setup: pip install vllm
run: |
  vllm serve $MODEL --tensor-parallel-size $SKYPILOT_NUM_GPUS_PER_NODE --max-model-len 2048
"""
DSTACK = """
type: service
image: vllm/vllm-openai:v0.8.5
env:
  - MODEL=meta-llama/Llama-2-7b-hf
  - HF_TOKEN
commands:
  - vllm serve $MODEL --max-model-len 2048 --tensor-parallel-size $DSTACK_GPUS_NUM
resources:
  gpu: {gpu}
"""
TRAINING = """
resources: {accelerators: "A100-80GB:8"}
num_nodes: 2
run: |
  if [ "$SKYPILOT_NODE_RANK" == "0" ]; then echo head; fi
  torchrun --nnodes $SKYPILOT_NUM_NODES --nproc_per_node $SKYPILOT_NUM_GPUS_PER_NODE \\
    train.py --model_name_or_path llama-2-7b --output_dir o --learning_rate 1e-5 --bf16
"""
TWO = {"tensor_parallel": 2}


@pytest.mark.parametrize(
    ("text", "gpu"),
    [
        (SKY.replace("{accelerators}", "L4:2"), "L4"),
        (SKY.replace("{accelerators}", "{L4: 2}"), "L4"),
        (SKY.replace("{accelerators}", '["L4:2"]'), "L4"),
        (SKY.replace("accelerators: {accelerators}", "any_of: [{accelerators: L4:2}]"), "L4"),
        (DSTACK.replace("{gpu}", "L4:24GB:2"), "L4"),
        (DSTACK.replace("{gpu}", "{name: [L4], count: 2}"), "L4"),
        (DSTACK.replace("{gpu}", "24GB..:2"), None),
    ],
)
def test_a_task_is_the_command_that_it_runs(text: str, gpu: str | None) -> None:
    """They were no known launcher; the GPUs that they ask for are a pod's."""
    question = ask(files=[{"name": "task.yaml", "content": text}])

    assert question.document["model"] == "meta-llama/Llama-2-7b-hf"
    assert get_layout(question) == TWO
    assert question.document.get("gpu") == gpu
    assert not any("GPUS" in key for key in question.imported.ignored)


def test_alternatives_are_asked() -> None:
    """Unlike numbers of GPUs are not said to the command, whose degree is asked then."""
    text = SKY.replace("{accelerators}", "{L4: 2, A100-80GB: 1}")

    question = ask(files=[{"name": "task.yaml", "content": text}])

    asked = {entry.field for entry in question.imported.questions}
    assert "gpu" in asked
    assert "--tensor-parallel-size" in question.imported.ignored


def test_a_choice_of_very_many_is_refused() -> None:
    """A task's script is read for each GPU, of which a line of text names tens of thousands."""
    text = DSTACK.replace("{gpu}", "'" + ",".join(f"A{number}" for number in range(33)) + "'")

    with pytest.raises(LaunchFormatError, match="33 GPUs to choose from; a task names 32"):
        ask(files=[{"name": "task.yaml", "content": text}])


def test_the_release_of_an_image_counts() -> None:
    """Its defaults are those of the engine that runs."""
    text = DSTACK.replace("{gpu}", "L4:1")

    question = ask(files=[{"name": "a.yml", "content": text}])

    assert question.imported.versions["vllm"] == "0.8.5"


def test_nodes_are_what_the_task_asks_for() -> None:
    """SkyPilot's variables are the head's."""
    question = ask(files=[{"name": "task.yaml", "content": TRAINING}])

    assert get_layout(question) == {"data_parallel": 16, "gpus_per_node": 8}
