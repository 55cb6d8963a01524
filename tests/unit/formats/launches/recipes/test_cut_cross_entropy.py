"""Cut cross-entropy of axolotl, family by family."""

import pytest

from service.formats.launches.read_launch import read_launch
from service.formats.launches.values.launch import Checkpoint, Launch, LaunchFile
from tests.unit.formats.launches.importing import get_part

_TEXT = (
    "base_model: a/b\nmicro_batch_size: 2\nplugins:\n"
    "- axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin\n"
)


@pytest.mark.parametrize(
    ("family", "loss"),
    [
        ("apertus", "fused_linear"),
        ("qwen3_moe", "fused_linear"),
        ("cohere2", None),
        ("gemma2", None),
        ("bloom", None),
    ],
)
def test_it_holds_no_logits_of_families_that_it_patches(family: str, loss: str | None) -> None:
    """Where logits are scaled or capped they are counted whole, which takes more."""
    imported = read_launch(
        Launch(
            launcher=None,
            files=(LaunchFile(name="a.yaml", content=_TEXT),),
            command=(),
            arguments={},
            find_checkpoint=lambda _name: Checkpoint(model_type=family, dtype="bfloat16"),
        )
    )

    assert get_part(imported, "workload").get("loss") == loss
    assert imported.ignored == (() if loss else ("plugins",))
