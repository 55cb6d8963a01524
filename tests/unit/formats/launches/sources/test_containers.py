"""Jobs of Kubernetes and compose files: their processes and variables."""

import pytest

from service.formats.launches.values.launch import Launcher
from tests.unit.formats.launches.importing import get_part, import_launch

PYTORCH = """apiVersion: v1
kind: ConfigMap
--- # the job
apiVersion: kubeflow.org/v1
kind: PyTorchJob
spec:
{spec}
  pytorchReplicaSpecs:
    Master:
      template: &pod
        spec:
          containers:
          - command: {command}
            env:
            - {{name: PET_NPROC_PER_NODE, value: "3"}}
    Worker: {{replicas: 2, template: *pod}}
"""
TRAIN = """apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
spec:
  runtimeRef: {{name: torch-distributed}}
  trainer:
    command: [torchrun]
    args: [train.py, --fsdp, full_shard]
    {spec}
"""
BARE = "[torchrun, train.py, --fsdp, full_shard]"
SHELL = "[bash, -c, 'echo $PET_NNODES; torchrun train.py --fsdp full_shard']"
NAMED = "[torchrun, --nnodes, $(PET_NNODES), train.py, --fsdp, full_shard]"
SAID = "[torchrun, --nnodes=2, --nproc_per_node=4, train.py, --fsdp, full_shard]"


@pytest.mark.parametrize(
    ("text", "ranks", "per_node"),
    [
        (PYTORCH.format(spec='  nprocPerNode: "8"', command=BARE), 24, 8),
        (PYTORCH.format(spec='  nprocPerNode: "8"', command=SHELL), 24, 8),
        (PYTORCH.format(spec='  nprocPerNode: "8"', command=NAMED), 24, 8),
        (PYTORCH.format(spec='  nprocPerNode: "8"', command=SAID), 8, 4),
        (PYTORCH.format(spec="  elasticPolicy: {nProcPerNode: 4}", command=BARE), 8, 4),
        (
            PYTORCH.format(spec="  elasticPolicy: {minReplicas: 2, nProcPerNode: 4}", command=BARE),
            8,
            4,
        ),
        (TRAIN.format(spec="numNodes: 2\n    numProcPerNode: 8"), 16, 8),
    ],
)
def test_a_training_job_says_how_many_gpus(text: str, ranks: int, per_node: int) -> None:
    """A bare torchrun takes what the operator tells it, and says so; its options win."""
    imported = import_launch({"job.yaml": text}, launcher=Launcher.TRAINER)

    layout = get_part(imported, "layout")
    assert (layout["data_parallel"], layout["gpus_per_node"]) == (ranks, per_node)
    assert not imported.ignored


@pytest.mark.parametrize(
    "text",
    [
        PYTORCH.format(spec="", command=BARE),
        PYTORCH.format(spec="  nprocPerNode: auto", command=BARE),
        PYTORCH.format(
            spec="  nprocPerNode: 8\n  elasticPolicy: {minReplicas: 1, maxReplicas: 4}",
            command=BARE,
        ),
        PYTORCH.format(spec="", command="[python, train.py, --model_name_or_path, a/b]"),
        TRAIN.format(spec="numNodes: 2"),
        TRAIN.format(spec="numProcPerNode: 8"),
    ],
)
def test_what_a_training_job_leaves_open_is_asked(text: str) -> None:
    """The operator starts as many processes as there are GPUs, which the file does not say."""
    imported = import_launch({"job.yaml": text}, launcher=Launcher.TRAINER)

    assert "layout.data_parallel" in {question.field for question in imported.questions}


def test_a_runtime_is_read_as_the_jobs_that_it_starts() -> None:
    """Its policy says the nodes; processes are as many as each has GPUs."""
    text = """kind: ClusterTrainingRuntime
apiVersion: trainer.kubeflow.org/v1alpha1
spec:
  mlPolicy: {numNodes: 2, torch: {numProcPerNode: 4}}
  template: {spec: {containers: [{command: [torchrun, train.py, --fsdp, full_shard]}]}}
"""

    imported = import_launch({"runtime.yaml": text}, launcher=Launcher.TRAINER)

    assert get_part(imported, "layout")["data_parallel"] == 8


def test_variables_tell_torchrun_how_many() -> None:
    """It takes every option from a variable, where the command has none."""
    imported = import_launch(
        command="PET_NPROC_PER_NODE=8 torchrun train.py", launcher=Launcher.TRAINER
    )

    assert get_part(imported, "layout")["data_parallel"] == 8


TORCHRUN = "torchrun --nproc_per_node=2 sft.py --model_name_or_path a/b"
SEGMENTS = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
SERVICE = f"services:\n  train:\n    image: a\n    command: {TORCHRUN}\n    environment:"
POD = "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - env:\n    - "
VALUE = "{name: PYTORCH_CUDA_ALLOC_CONF, value: 'expandable_segments:True'}"


@pytest.mark.parametrize(
    "text",
    [
        f"{SERVICE} {{PYTORCH_CUDA_ALLOC_CONF: '${{A:-expandable_segments:True}}', B: }}\n",
        f"{SERVICE} ['{SEGMENTS}', HF_TOKEN]\n",
        f"{POD}{VALUE}\n    command: [{', '.join(TORCHRUN.split())}]\n",
        f"{POD}{VALUE}\n    command: [sh, -c, '{TORCHRUN}']\n",
    ],
)
def test_variables_of_a_container_count(text: str) -> None:
    """The allocator's mode is read wherever it is said."""
    imported = import_launch({"a.yaml": text})

    assert get_part(imported, "workload")["allocator"] == "expandable_segments"
    assert get_part(imported, "layout")["data_parallel"] == 2
    assert not imported.ignored


@pytest.mark.parametrize("option", ["-e ", "--env ", "--env=", "-e=", "-e"])
def test_variables_of_docker_count(option: str) -> None:
    """Every one is a variable, not the last alone, and none is without effect."""
    options = f"--rm {option}{SEGMENTS} -e HF_TOKEN --gpus all {option}B=c"

    imported = import_launch(command=f"docker run {options} a:1 {TORCHRUN}")

    assert get_part(imported, "workload")["allocator"] == "expandable_segments"
    assert imported.ignored == ("B",)
    assert "-e" not in imported.without_effect
    assert "--env" not in imported.without_effect
