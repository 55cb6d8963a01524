"""GPUs, nodes and tasks that a launch's job asks a scheduler for."""

import pytest

from service.contract.to_question.launches import LaunchQuestion
from service.formats.launches.values.errors import LaunchFormatError
from tests.unit.formats.launches.asking import ask, ask_command, get_layout

_TRAIN = "train.py --model_name_or_path llama-2-7b --bf16 --sequence_length 512 --fsdp full_shard"
_RECIPE = "model_name_or_path: llama-2-7b\nstage: sft\nfinetuning_type: full\ncutoff_len: 512\n"
_SPREAD = "srun torchrun --nnodes $SLURM_NNODES --nproc_per_node $SLURM_GPUS_ON_NODE"


def _ask_job(directives: str, start: str = f"{_SPREAD} {_TRAIN}") -> LaunchQuestion:
    """Return the question of a job of Slurm, with an option on each line."""
    lines = "\n".join(f"#SBATCH {line}" for line in directives.split(";"))
    script = {"name": "job.sbatch", "content": f"#!/bin/bash\n{lines}\n{start}\n"}
    recipe = {"name": "sft.yaml", "content": _RECIPE}
    return ask(files=[script, recipe] if "sft.yaml" in start else [script])


@pytest.mark.parametrize(
    ("directives", "gpu", "ranks"),
    [
        ("--gres=gpu:h100-sxm:4,lscratch:100;--nodes=2", "H100-SXM5-80GB", 8),
        ("--gpus-per-node=v100s:8;-N 1", "V100S-PCIE-32GB", 8),
        ('--gres=gpu:4;-N 2;-C "a100-sxm4-80gb&ib"', "A100-SXM4-80GB", 8),
        ("--gres=gpu:nvidia_a100-sxm4-80gb;--nodes=4-8", "A100-SXM4-80GB", 4),
        ("--gres=gpu:a100:2;--constraint=a100_80gb;-N1", None, 2),
        ("--gpus-per-node=l4:2", "L4", 2),
    ],
)
def test_a_job_says_its_gpus(directives: str, gpu: str | None, ranks: int) -> None:
    """By type, or by a feature of its nodes; a word of several GPUs is asked about."""
    question = _ask_job(directives)

    assert question.document.get("gpu") == gpu
    assert get_layout(question)["data_parallel"] == ranks
    assert question.imported.ignored == ()


@pytest.mark.parametrize(
    ("directives", "start", "ranks"),
    [
        ("-N2 --ntasks-per-node=4;--gres=gpu:h100-sxm:4", "srun", 8),
        ("--tasks-per-node=4 -N 2;--gres=gpu:h100-sxm:4", "srun", 8),
        ("-G4 -n4", "srun -Ch100-sxm", 4),
        ("-Jrun", "srun -lvN2 -n16 --gres=gpu:h100-sxm:8", 16),
        ("-N1", "srun --kill-on-bad-exit -n4 --gres=gpu:h100-sxm:4", 4),
    ],
)
def test_letters_have_their_values_in_the_same_word(
    directives: str, start: str, ranks: int
) -> None:
    """As getopt takes them, after letters that have none."""
    question = _ask_job(directives, f"{start} python {_TRAIN}")

    assert question.document["gpu"] == "H100-SXM5-80GB"
    assert get_layout(question)["data_parallel"] == ranks
    assert question.imported.ignored == ()


@pytest.mark.parametrize(
    ("text", "gpu", "ranks", "remark"),
    [
        (("#SBATCH --gres=gpu:h100-sxm:1\n#SBATCH hetjob\n#SBATCH --gres=gpu:v100-sxm2-16gb:1\n"
         f"torchrun {_TRAIN}"), "H100-SXM5-80GB", 1, "number 0 counts, on which the script runs"),
        (("#SBATCH --gres=gpu:h100-sxm:1\n#SBATCH packjob\n#SBATCH --gres=gpu:l4:2 -n2\n"
         f"srun --het-group=1 python {_TRAIN}"), "L4", 2, "number 1 counts, which srun names"),
        (("#SBATCH --gres=gpu:l4:2\n\n  # more\n#SBATCH -n2 # two\nsrun hostname\n"
         f"#SBATCH --gres=gpu:h100-sxm:4 -n4\nsrun python {_TRAIN}"), "L4", 2, "for comments"),
        (("#SBATCH --job-name='run#1' --gres=gpu:l4:2\n"
         f"torchrun --nproc_per_node 2 {_TRAIN}"), "L4", 2, ""),
        (f"sbatch -N2 <<EOF\n#!/bin/sh\n#SBATCH --gres=gpu:l4:2\nsrun -n4 python {_TRAIN}\nEOF",
         "L4", 4, ""),
    ],
)  # fmt: skip
def test_directives_count_before_the_first_command(
    text: str, gpu: str, ranks: int, remark: str
) -> None:
    """Those of the component that runs the launch, as Slurm reads them."""
    question = ask(files=[{"name": "job.sbatch", "content": f"#!/bin/bash\n{text}\n"}])

    assert question.document["gpu"] == gpu
    assert get_layout(question)["data_parallel"] == ranks
    assert bool(remark) == bool(question.imported.warnings)
    assert remark in "".join(question.imported.warnings)


@pytest.mark.parametrize(
    ("command", "gpu", "ranks"),
    [
        ("sbatch --gres=gpu:h100-sxm:8 job.sbatch", "H100-SXM5-80GB", 8),
        ("sbatch -N 2 --parsable job.sbatch", "V100S-PCIE-32GB", 2),
        ("X=1 sbatch -WN2 --gres=gpu:v100s:4 ./jobs/job.sbatch", "V100S-PCIE-32GB", 8),
        (f"sbatch -N2 --gres=gpu:l4:2 --wrap 'srun -n4 python {_TRAIN}'", "L4", 4),
        (f"sbatch -N2 --gres=gpu:l4:2 --wrap '{_SPREAD} {_TRAIN}'", "L4", 4),
        (f"sbatch --gres=gpu:l4:2 --wrap='torchrun --nproc_per_node gpu {_TRAIN}'", "L4", 2),
        (f"salloc --gres=gpu:l4:4 torchrun --nproc_per_node gpu {_TRAIN}", "L4", 4),
        (f"salloc -N2 --gres=gpu:l4:4 srun --ntasks-per-node=4 python {_TRAIN}", "L4", 8),
    ],
)
def test_typed_options_of_a_job_win(command: str, gpu: str, ranks: int) -> None:
    """Over those of its script."""
    start = "srun torchrun --nnodes $SLURM_NNODES --nproc_per_node gpu"
    script = f"#!/bin/bash\n#SBATCH -N1 --gres=gpu:v100s:1\n{start} {_TRAIN}\n"
    is_file = "job.sbatch" in command
    files = [{"name": "job.sbatch", "content": script}] if is_file else []
    question = ask_command(command, files=files)

    assert question.document["gpu"] == gpu
    assert get_layout(question)["data_parallel"] == ranks
    assert question.imported.ignored == ()


@pytest.mark.parametrize(
    ("directives", "choices"),
    [
        ("--gpus=a100:2;--constraint=gpu80gb", ("A100-SXM4-80GB", "A100-PCIE-80GB")),
        ("--gres=gpu:1;-C [l4|t4]", ("L4", "T4")),
        ("--gres=gpu:1;--partition=gpu_h200", ("H200-SXM5-141GB",)),
    ],
)
def test_what_a_word_may_mean_is_asked(directives: str, choices: tuple[str, ...]) -> None:
    """A partition's name is no promise, even of one GPU."""
    question = _ask_job(directives)

    [asked] = [entry for entry in question.questions if entry.field == "gpu"]
    assert set(asked.choices) == set(choices)
    assert "gpu" in question.missing


@pytest.mark.parametrize(
    ("directives", "why"),
    [
        ("--gres=gpu:v100l:2", "--gres gpu:v100l:2 (job.sbatch, #SBATCH) names no GPU"),
        ("--gpus=k40:1", "--gpus k40:1 (job.sbatch, #SBATCH) names no GPU of the catalogue; say"),
        ("--gres=gpu:1g.10gb:1", "does not say whose slice 1g.10gb is, such as A100-SXM4-80GB/1g"),
    ],
)
def test_a_word_that_names_no_gpu_is_asked_about(directives: str, why: str) -> None:
    """By itself, with what would be right."""
    [asked] = [entry for entry in _ask_job(directives).questions if entry.field == "gpu"]

    assert why in asked.why
    assert asked.why.endswith("(--gpu)")


@pytest.mark.parametrize(
    ("directives", "ranks"),
    [
        ("--tres-per-node=gres/gpu:h100-sxm:4 -N1", 4),
        ("--gpus-per-socket=h100-sxm:4 --sockets-per-node=2", 8),
        ("--gres=gpu:h100-sxm:${N}", None),
    ],
)
def test_gpus_are_counted_by_any_option(directives: str, ranks: int | None) -> None:
    """A variable says no number, which is told."""
    question = _ask_job(directives, f"torchrun --nproc_per_node gpu {_TRAIN}")

    assert question.document["gpu"] == "H100-SXM5-80GB"
    assert get_layout(question).get("data_parallel") == ranks
    assert any("variable" in text for text in question.imported.warnings) == (ranks is None)


def test_a_negative_number_of_gpus_is_refused() -> None:
    """It is no GPU of that name."""
    with pytest.raises(LaunchFormatError, match="expected a number of GPUs from 1 to 65,536"):
        _ask_job("--gres=gpu:-1")


@pytest.mark.parametrize(
    ("directives", "start", "ranks"),
    [
        ("--gres=gpu:4", f"CUDA_VISIBLE_DEVICES=0,1 accelerate launch {_TRAIN}", 2),
        ("--gres=gpu:4", f"CUDA_VISIBLE_DEVICES=3,2,1 torchrun --nproc_per_node gpu {_TRAIN}", 3),
        ("--gres=gpu:2", f"CUDA_VISIBLE_DEVICES=0,1,2,3 deepspeed {_TRAIN}", 2),
        ("--gres=gpu:4", f"CUDA_VISIBLE_DEVICES=0,-1,2 python {_TRAIN}", 1),
        ("--gres=gpu:4", "CUDA_VISIBLE_DEVICES=0,1 NNODES=2 llamafactory-cli train sft.yaml", 4),
    ],
)
def test_visible_devices_cap_what_a_job_has(directives: str, start: str, ranks: int) -> None:
    """Of each node: CUDA shows a process no others."""
    assert get_layout(_ask_job(directives, start))["data_parallel"] == ranks


@pytest.mark.parametrize(
    ("directives", "start"),
    [
        ("--gres=gpu:4", f"torchrun --nnodes $NNODES --nproc_per_node 2 {_TRAIN}"),
        ("--gres=gpu:4", f"torchrun --nnodes 1:4 --nproc_per_node 2 {_TRAIN}"),
        ("--gres=gpu:4", f"torchrun --nproc_per_node $NUM_GPUS {_TRAIN}"),
        ("--gres=gpu:4", f"deepspeed --num_nodes $NODES --num_gpus 2 {_TRAIN}"),
        ("--gres=gpu:4", f"mpirun -np $NP python {_TRAIN}"),
        ("--gres=gpu:4;--nodes=${NODES}", f"{_SPREAD} {_TRAIN}"),
        ("--gres=gpu:4;--nodes=${NODES}", f"srun --ntasks-per-node 4 python {_TRAIN}"),
        ("--gres=gpu:4;-N 2", "llamafactory-cli train sft.yaml"),
        ("--gres=gpu:4", "FORCE_TORCHRUN=1 NNODES=$NODES llamafactory-cli train sft.yaml"),
    ],
)
def test_a_number_that_nobody_says_is_asked(directives: str, start: str) -> None:
    """The job's own says nothing of it, nor whether all its nodes run the program."""
    question = _ask_job(directives, start)

    assert "data_parallel" not in get_layout(question)
    assert "layout.data_parallel" in question.missing


@pytest.mark.parametrize(
    ("start", "ranks"),
    [
        (f"accelerate launch {_TRAIN}", 4),
        (f"torchrun --nproc_per_node gpu {_TRAIN}", 4),
        (f"deepspeed {_TRAIN}", 4),
        (f"torchrun --nproc_per_node 2 {_TRAIN}", 2),
        (f"srun --ntasks 4 --gpus-per-task h200:1 python {_TRAIN}", 4),
    ],
)
def test_a_starter_without_a_number_takes_the_jobs(start: str, ranks: int) -> None:
    """One that is told another number leaves GPUs idle, which is said."""
    question = _ask_job("--gres=gpu:4", start)

    warnings = [text for text in question.imported.warnings if "asks for 4 GPUs" in text]
    assert get_layout(question)["data_parallel"] == ranks
    assert len(warnings) == (ranks != 4)


@pytest.mark.parametrize(
    ("directives", "start", "ranks"),
    [
        ("--gres=gpu:4;-N 2", "srun llamafactory-cli train sft.yaml", 4),
        ("--gres=gpu:4;-N 2", "NNODES=$SLURM_NNODES srun llamafactory-cli train sft.yaml", 8),
        ("--gres=gpu:4;-N 2", "FORCE_TORCHRUN=1 NNODES=2 llamafactory-cli train sft.yaml", 8),
        ("--gres=gpu:4", "FORCE_TORCHRUN=1 NNODES=2 llamafactory-cli train sft.yaml", 8),
    ],
)
def test_a_program_starts_the_gpus_of_each_node(directives: str, start: str, ranks: int) -> None:
    """LLaMA-Factory does, on one node unless ``NNODES`` says more."""
    layout = get_layout(_ask_job(directives, start))

    assert (layout["data_parallel"], layout.get("gpus_per_node", ranks)) == (ranks, 4)


def test_one_process_with_several_gpus_is_told_of() -> None:
    """Trainer runs replicas in one process, of which there is no term."""
    question = _ask_job("--gres=gpu:4", "python train.py --model_name_or_path gpt2 --bf16")

    (asked,) = [one for one in question.questions if one.field == "layout.data_parallel"]
    assert "nn.DataParallel" in asked.why
    assert "torchrun --nproc_per_node 4" in asked.why
    assert (asked.choices, asked.lower_bound) == ((4, 1), 1)


@pytest.mark.parametrize(
    ("gpu", "shown"),
    [
        ("L4", "L4"),
        ("H100-SXM", None),
        ("h100", None),
        ("L40 of some kind", "L40 of some kind"),
        ({"memory_bytes": 85_899_345_920}, "a GPU of 80.00 GiB"),
        ({"memory_bytes": "40GiB"}, "a GPU of 40GiB"),
        ({"memory_bytes": "81559MiB"}, None),
        ({"memory_bytes": "some"}, "a GPU of some"),
    ],
)
def test_the_gpu_of_a_request_wins_over_the_jobs(gpu: object, shown: str | None) -> None:
    """It is a question of its own, which is said where the job's is another."""
    question = ask_command(f"srun --gres=gpu:h100-sxm:2 -n 2 python {_TRAIN}", gpu=gpu)

    text = f"the launch's job asks for H100-SXM5-80GB, and the answer is for {shown}"
    assert question.document["gpu"] == gpu
    assert [line for line in question.imported.warnings if "answer is for" in line] == (
        [] if shown is None else [text]
    )
