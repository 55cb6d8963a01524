"""Each setting of a launch is read, without effect or ignored: one of these, and once."""

from pathlib import Path

import pytest

from tests.unit.formats.launches.importing import import_launch

FILES = sorted((Path(__file__).parents[1] / "files").iterdir())
_AXOLOTL = "base_model: m\nsequence_len: 512\nmicro_batch_size: 2\nval_set_size: 0.1\n"
_PLUGIN = "plugins: [axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin]\n"
_TRAIN = "train.py --model_name_or_path m --sequence_length 512 --bf16"
_JOB = "#!/bin/bash\n#SBATCH --nodes=2 --gres=gpu:h100:4\nexport PET_NNODES=2\n"


@pytest.mark.parametrize(
    "files",
    [
        *({file.name: file.read_text()} for file in FILES),
        {"a.yaml": f"{_AXOLOTL}eval_strategy: no\n"},
        {"a.yaml": f"{_AXOLOTL}{_PLUGIN}"},
        {"j.sh": f"{_JOB}srun torchrun --nnodes 2 --nproc_per_node 4 {_TRAIN}\n"},
        {"j.sh": f"{_JOB}torchrun --nproc_per_node 4 {_TRAIN}\n"},
        {"j.sh": f"export CUDA_VISIBLE_DEVICES=0,1\ntorchrun --nproc_per_node gpu {_TRAIN}\n"},
    ],
    ids=lambda files: next(iter(files)),
)
def test_a_setting_is_in_one_list(files: dict[str, str]) -> None:
    """What several readers took counts as the one that counts most says."""
    imported = import_launch(files)
    read = {one.key for one in imported.read if not one.where.startswith("default")}
    lists = (read, set(imported.ignored), set(imported.without_effect))

    assert sum(map(len, lists)) == len(set[str]().union(*lists))
