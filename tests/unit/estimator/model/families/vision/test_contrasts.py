"""Similarities and their loss over many pairs, against live bytes of transformers' CLIP."""

import pytest

from service.estimator.estimate import estimate
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.layout import Layout
from tests.builders import a_device, a_training
from tests.unit.estimator.model.families.vision.vision_models import SMALL

_SCALAR_BYTES = 4
"""Weight of a mean loss, which nothing reads."""


@pytest.mark.parametrize(
    ("precision", "forward", "backward"),
    [("bf16", 47836852, 49129004), ("amp_bf16", 63771136, 64976816)],
)
def test_pairs_are_compared_in_the_dtypes_of_the_real_model(
    precision: str, forward: int, backward: int
) -> None:
    """Autocast normalises in fp32, and a scale without dimensions leaves similarities narrow."""
    answer = estimate(
        architecture_from_config(SMALL["clip"]),
        a_training(
            precision=precision,
            optimizer="sgd",
            sequence_length=32,
            micro_batch_size=64,
            keeps_logits=True,
            fp32_outputs=False,
        ),
        layout=Layout(),
        device=a_device(),
    )

    peaks = [phase.allocated_bytes - answer.steady_bytes for phase in answer.phases[:2]]
    assert peaks == pytest.approx([forward, backward], abs=_SCALAR_BYTES)
