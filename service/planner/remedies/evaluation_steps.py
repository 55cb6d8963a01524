"""Single steps towards less memory of an evaluation between training steps."""

from collections.abc import Iterator
from dataclasses import replace

from service.estimator.values.batches import Evaluation
from service.estimator.values.workload import TrainWorkload
from service.planner.fit.evaluator import Config


def keep_losses_alone(config: Config) -> Iterator[Config]:
    """Keep no logits of an evaluation (`prediction_loss_only`)."""
    match config:
        case (
            TrainWorkload(evaluation=Evaluation(kept_batches=number) as evaluation) as workload,
            layout,
        ) if number:
            yield replace(workload, evaluation=replace(evaluation, kept_batches=0)), layout


def keep_fewer_batches(config: Config) -> Iterator[Config]:
    """Halve the batches repeatedly whose logits wait for the host.

    They are `eval_accumulation_steps`, and metrics are the same.
    """
    match config:
        case (TrainWorkload(evaluation=Evaluation() as evaluation) as workload, layout):
            number = (evaluation.kept_batches or 0) // 2
            while number:
                yield replace(workload, evaluation=replace(evaluation, kept_batches=number)), layout
                number //= 2


def halve_evaluated_batch(config: Config) -> Iterator[Config]:
    """Halve the batch of an evaluation repeatedly, which changes no result."""
    match config:
        case (TrainWorkload(evaluation=Evaluation() as evaluation) as workload, layout):
            size = evaluation.batch_size // 2
            while size:
                yield replace(workload, evaluation=replace(evaluation, batch_size=size)), layout
                size //= 2
