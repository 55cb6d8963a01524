"""Launches that something else starts: jobs within scripts, steps, axolotl's launchers."""

import pytest

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
