"""Steps of GRPO as TRL ran them before 1.15, held against its own code on a small llama.

The bytes are sums of live storages under fake tensors (torch 2.13, transformers 5.23) of TRL 1.9's
``_get_per_token_logps_and_entropies`` and the clipped loss.
"""

from typing import Any

import pytest

from service.estimator.estimate import estimate
from service.estimator.memory.timeline import build_train_timeline
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.layout import Layout
from service.estimator.values.losses import Loss, Reference, Trainer
from service.estimator.values.workload import TrainWorkload
from tests.builders import a_device, a_training
from tests.tiny_shapes import WIDE_LLAMA


def _policy(loss: Loss, precision: str, completion: int, **changes: Any) -> TrainWorkload:  # noqa: ANN401 - each its own type
    return a_training(
        trainer=Trainer.GRPO,
        loss=loss,
        precision=precision,
        micro_batch_size=2,
        sequence_length=64 + completion,
        completion_length=completion,
        optimizer="adamw_fused",
        **changes,
    )


@pytest.mark.parametrize(
    ("precision", "completion", "forward", "backward"),
    [
        ("bf16", 64, 416645700, 411421444),
        ("bf16", 448, 1035054660, 1166890316),
        ("amp_bf16", 64, 830686020, 766041932),
        ("amp_bf16", 448, 1652442948, 2375788364),
    ],
)
def test_whole_logits_of_completions_are_trls(
    precision: str, completion: int, forward: int, backward: int
) -> None:
    """All logits of completions, what scores and entropies make of them, and four gradients."""
    model = architecture_from_config(WIDE_LLAMA)
    workload = _policy(Loss.SELECTIVE, precision, completion)
    phases = dict(build_train_timeline(model, workload, Layout()).phases)

    assert phases["forward_pass"] == pytest.approx(forward, rel=1e-5)
    assert phases["backward_pass"] == pytest.approx(backward, rel=1e-5)


def test_older_scores_take_more_than_tiles() -> None:
    """Passes that score without a graph hold the logits too; a reference is another model."""
    plain, older = (
        estimate(
            architecture_from_config(WIDE_LLAMA),
            _policy(loss, "bf16", 1024, reference=Reference.MODEL),
            layout=Layout(),
            device=a_device(),
        )
        for loss in (Loss.CHUNKED_NLL, Loss.SELECTIVE)
    )

    assert older.allocated_bytes > plain.allocated_bytes + 2 * 1024 * 128256 * 2
