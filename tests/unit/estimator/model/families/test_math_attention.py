"""SDPA's math kernel in an image tower, where no loss over a vocabulary hides what it holds.

Bytes are sums of live storages of a ViT of three layers on eight images under fake tensors (torch
2.13, transformers 5.23).
"""

import pytest

from service.catalog.models import load_config, resolve_model
from service.estimator.memory.timeline import build_train_timeline
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Attention, Checkpointing
from tests.builders import a_training
from tests.unit.estimator.model.families.recorded_peaks import a_family


@pytest.mark.parametrize(
    ("precision", "checkpointing", "backward"),
    [
        ("bf16", Checkpointing.NONE, 203_554_964),
        ("bf16", Checkpointing.FULL, 110_360_596),
        ("fp32", Checkpointing.NONE, 318_753_000),
        ("fp32", Checkpointing.FULL, 190_673_128),
    ],
)
def test_a_step_of_several_images_is_what_was_traced(
    precision: str, checkpointing: Checkpointing, backward: int
) -> None:
    """Heads of several images lie apart, so that products copy them; fp32 copies and the scaled
    query have names.
    """
    model = a_family(**load_config(resolve_model("vit-base-patch16-224"))).with_layers(3)
    workload = a_training(
        precision=precision,
        micro_batch_size=8,
        sequence_length=197,
        attention=Attention.MATH,
        activation_checkpointing=checkpointing,
        keeps_logits=True,
        fp32_outputs=False,
    )

    timeline = build_train_timeline(model, workload, Layout())

    assert dict(timeline.phases)["backward_pass"] - timeline.steady_bytes == pytest.approx(
        backward, rel=1e-6
    )
