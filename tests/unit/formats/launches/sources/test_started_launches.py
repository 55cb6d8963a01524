"""Launches that something else starts: jobs within scripts, steps, axolotl's launchers."""

import pytest

from service.formats.launches.sources.slurm_jobs import read_jobs
from service.formats.launches.values.errors import LaunchFormatError
from tests.unit.formats.launches.asking import ask, get_layout

_TRAIN = "train.py --model_name_or_path llama-2-7b --bf16 --sequence_length 512 --fsdp full_shard"
_ONE = f"torchrun --nproc_per_node 1 {_TRAIN}"


def test_a_job_within_a_script_has_directives_of_its_own() -> None:
    """Those of the here-document that starts the launch count, not the script's."""
    inner = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gpus-per-node=h200:8\n"
    start = f"srun torchrun --nnodes 2 --nproc_per_node 8 {_TRAIN}\n"
    text = f"#!/bin/bash\n#SBATCH --gres=gpu:v100:1\nsbatch <<EOF\n{inner}{start}EOF\n"

    question = ask(files=[{"name": "submit.sh", "content": text}])

    assert str(question.document["gpu"]).startswith("H200")
    assert question.imported.warnings == ()


def test_steps_alike_on_other_gpus_are_told() -> None:
    """The first counts, and the other's place is named."""
    steps = f"srun --gpus=4 {_ONE}\nsrun --gpus=1 {_ONE}\n"

    question = ask(files=[{"name": "a.sh", "content": f"#!/bin/bash\n{steps}"}])

    told = " ".join(question.imported.warnings)
    assert "a.sh:3 starts the same with other options of what starts it, and a.sh:2 counts" in told


@pytest.mark.parametrize(
    ("start", "ranks"),
    [
        ("axolotl train a.yml --launcher torchrun -- --nproc_per_node=2", 2),
        ("axolotl train a.yml --launcher accelerate -- --num_processes 3", 3),
        ("axolotl train a.yml --num-processes=2", 2),
        ("NPROC_PER_NODE=2 axolotl train a.yml", 4),
    ],
)
def test_axolotl_hands_options_to_what_it_starts(start: str, ranks: int) -> None:
    """Behind two hyphens; LLaMA-Factory's variables are none of its own."""
    recipe = "base_model: llama-2-7b\nmicro_batch_size: 1\nsequence_len: 512\n"

    question = ask(
        command=f"srun --gres=gpu:4 {start}", files=[{"name": "a.yml", "content": recipe}]
    )

    assert get_layout(question)["data_parallel"] == ranks


def test_scripts_within_a_script_are_counted() -> None:
    """Each of them would be read from its place to the end of all."""
    with pytest.raises(LaunchFormatError, match="has more than 64 scripts in it; send one of them"):
        read_jobs("job.sh", "sbatch <<END\n#!/bin/sh\nEND\n" * 65)


def test_directives_of_a_script_end_where_the_next_begins() -> None:
    """Each submitted script has its own options, by the line that hands it over."""
    script = "#!/bin/sh\n" + "".join(
        f"sbatch <<END\n#!/bin/sh\n#SBATCH --nodes={number}\nsrun x\nEND\n" for number in (2, 3)
    )

    jobs = read_jobs("job.sh", script)

    nodes = {line: [each.peek("nodes") for each in job.components] for line, job in jobs.items()}
    assert {line: [entry.value for entry in found if entry] for line, found in nodes.items()} == {
        0: ["2"],
        2: ["2"],
        7: ["3"],
    }
    assert all(job.remarks == () for job in jobs.values())
