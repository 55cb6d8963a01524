"""Times of forward passes that score, beside the policy's own."""

from dataclasses import replace

import pytest

from service.catalog.gpus import resolve_device
from service.estimator.speed.stretches import count_scoring_passes
from service.estimator.speed.throughput import WorkCache
from service.estimator.values.layout import Layout
from service.estimator.values.losses import Reference, Trainer
from service.estimator.values.workload import TrainWorkload
from tests.builders import a_model

KTO = TrainWorkload(
    sequence_length=2048, micro_batch_size=8, trainer=Trainer.KTO, reference=Reference.MODEL
)


@pytest.mark.parametrize(
    ("trainer", "reference", "passes"),
    [
        (Trainer.DPO, Reference.MODEL, 1),
        (Trainer.DPO, Reference.PRECOMPUTED, 0),
        (Trainer.KTO, Reference.MODEL, 3),
        (Trainer.KTO, Reference.PRECOMPUTED, 1),
    ],
)
def test_a_reference_scores_what_the_policy_scores(
    trainer: Trainer, reference: Reference, passes: int
) -> None:
    """KTO's also the mismatched completions, which its policy scores too."""
    assert count_scoring_passes(replace(KTO, trainer=trainer, reference=reference)) == passes


def test_a_step_is_longer_by_each_pass_that_scores() -> None:
    """A timer that knows one reference is not asked about another."""
    works, model = WorkCache(), a_model(num_hidden_layers=8, hidden_size=1024)

    def time_s(workload: TrainWorkload) -> float:
        timer = works.get_timer(model, workload, resolve_device("H100-SXM5-80GB"))
        seconds = timer.estimate_step_s(workload, Layout())
        assert seconds is not None
        return seconds

    referred, precomputed, plain = map(
        time_s,
        (
            KTO,
            replace(KTO, reference=Reference.PRECOMPUTED),
            replace(KTO, trainer=Trainer.SUPERVISED, reference=None),
        ),
    )

    one_pass = precomputed - plain
    assert one_pass > 0
    assert referred - precomputed == pytest.approx(2 * one_pass)
