"""Programs that start processes: how many GPUs they say."""

import msgspec
import pytest

from service.cli.offline.inline import resolve_offline_model
from service.contract.to_question.launches import find_by
from service.contract.to_question.submissions.questions import read_submission
from service.formats.launches.values.launch import Launcher
from service.formats.submissions.submission import GpuRequest, Submission
from tests.unit.formats.launches.importing import get_part, import_launch


@pytest.mark.parametrize(
    ("command", "ranks", "per_node"),
    [
        ("torchrun --nproc_per_node 8 train.py", 8, None),
        ("torchrun --nnodes 2 --nproc-per-node=4 train.py", 8, 4),
        ("python -m torch.distributed.run --nproc_per_node 4 train.py", 4, None),
        ("accelerate launch --num_processes 16 --num_machines 2 train.py", 16, 8),
        ("deepspeed --num_gpus 4 train.py", 4, None),
        ("deepspeed --num_nodes 2 --num_gpus 8 train.py", 16, 8),
        ("deepspeed --include localhost:0,1,3 train.py", 3, None),
        ("srun -N 2 --ntasks-per-node 8 train.py", 16, 8),
        ("srun -N 2 torchrun --nnodes 2 --nproc_per_node 8 train.py", 16, 8),
        ("accelerate launch --gpu_ids 0,1,3 train.py", 3, None),
        ("accelerate launch --gpu_ids 0,1,3 --num_processes 2 train.py", 2, None),
        ("mpirun -H one:4,two:4 python train.py", 8, 4),
        ("mpirun --host one,two -np 4 python train.py", 4, None),
    ],
)
def test_starters_say_how_many_gpus(command: str, ranks: int, per_node: int | None) -> None:
    """Each process of a starter has a GPU, and several nodes share them evenly."""
    layout = get_part(import_launch(command=command, launcher=Launcher.TRAINER), "layout")

    assert layout["data_parallel"] == ranks
    assert layout.get("gpus_per_node") == per_node


@pytest.mark.parametrize(
    ("command", "asked"),
    [
        ("CUDA_VISIBLE_DEVICES=0,1 python train.py", True),
        ("docker run --gpus 2 trainer:1 python train.py", True),
        ("CUDA_VISIBLE_DEVICES=3 python train.py", False),
        ("CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node 2 train.py", False),
        ("CUDA_VISIBLE_DEVICES=0,1 python train.py --deepspeed ds.json", False),
    ],
)
def test_one_process_with_several_gpus_is_asked_about(command: str, *, asked: bool) -> None:
    """Trainer replicates the model on them within a process, which has no term."""
    files = {"ds.json": '{"zero_optimization": {"stage": 1}}'} if "ds.json" in command else {}

    imported = import_launch(files, command=command, launcher=Launcher.TRAINER)

    questions = {one.field: one for one in imported.questions}
    layout = get_part(imported, "layout") if "layout" in imported.question else {}
    assert ("nn.DataParallel" in str(questions.get("layout.data_parallel"))) is asked
    assert ("data_parallel" in layout) is not asked


def test_layers_that_are_spread_are_told_of() -> None:
    """With a device map Trainer replicates nothing, and no GPU has all layers."""
    imported = import_launch(
        launcher=Launcher.TRAINER,
        command="CUDA_VISIBLE_DEVICES=0,1 python train.py",
        arguments={"model_kwargs": {"device_map": "auto"}},
    )

    assert "spreads the layers over 2 GPUs" in " ".join(imported.warnings)


@pytest.mark.parametrize(
    "command",
    [
        *("deepspeed train.py", "accelerate launch --gpu_ids all train.py"),
        *("torchrun --nproc_per_node gpu train.py", "accelerate launch train.py"),
    ],
)
def test_a_number_of_gpus_that_nobody_says_is_asked(command: str) -> None:
    """None is assumed: replicas of DDP need more than a GPU alone."""
    imported = import_launch(command=command, launcher=Launcher.TRAINER)

    [asked] = [entry for entry in imported.questions if entry.field == "layout.data_parallel"]
    assert not asked.is_assumed
    assert "layout.data_parallel" in imported.open_fields
    assert "layout" not in imported.question


@pytest.mark.parametrize(
    ("options", "layout"),
    [
        ("--num_processes 4", {"data_parallel": 4}),
        (
            "--num_processes 4 --accelerate_config zero3",
            {"data_parallel": 4, "sharding": "deepspeed", "zero_stage": 3},
        ),
        ("--accelerate_config single_gpu", {"data_parallel": 1}),
        (
            "--accelerate_config fsdp2",
            {
                "data_parallel": 8,
                "sharding": "fsdp2",
                "zero_stage": 3,
                "reshard_after_forward": True,
            },
        ),
    ],
)
def test_trl_starts_accelerate(options: str, layout: dict[str, object]) -> None:
    """What its script does not know are accelerate's options, with files of TRL's own."""
    imported = import_launch(command=f"trl sft --model_name_or_path a/b {options}")

    assert get_part(imported, "layout") == layout
    assert not imported.ignored


def test_trl_runs_on_every_gpu_there_is() -> None:
    """Where nobody says how many, accelerate takes all of the machine."""
    imported = import_launch(command="trl sft --model_name_or_path a/b")

    assert "layout.data_parallel" in {question.field for question in imported.questions}


@pytest.mark.parametrize("num_gpus", [1, 4])
def test_a_submitted_job_says_how_many_gpus(num_gpus: int) -> None:
    """Beside its launch, which is told none."""
    command = "accelerate launch train.py --model_name_or_path gpt2 --bf16 --max_length 128"
    submission = Submission(
        scheduler="skypilot",
        command=tuple(command.split()),
        gpus=GpuRequest(per_node=num_gpus, names=("L4",)),
    )

    request = read_submission(submission, find_by(resolve_offline_model)).request

    assert msgspec.to_builtins(request.layout)["data_parallel"] == num_gpus
