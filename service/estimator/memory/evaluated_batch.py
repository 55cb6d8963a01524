"""Batches of an evaluation between training steps."""

from dataclasses import replace
from typing import NamedTuple

from service.estimator.memory.setup import TrainSetup
from service.estimator.memory.training_pass import (
    BatchNotes,
    build_setup_pass,
    describe_batch,
    resolve_batch_shape,
)
from service.estimator.model.library_versions import parse_transformers_release, skips_logits
from service.estimator.passes.config import EvaluationPass, TrainingPass
from service.estimator.tape import sizes
from service.estimator.tape.sizes import Size
from service.estimator.values.batches import Evaluation
from service.estimator.values.losses import Loss
from service.estimator.values.workload import Checkpointing, TrainWorkload


class EvaluatedBatch(NamedTuple):
    """A batch of an evaluation.

    It has its pass, the values of its monomials, and notes.
    """

    config: TrainingPass
    values: Size
    notes: BatchNotes


def resolve_evaluation(setup: TrainSetup, workload: TrainWorkload) -> EvaluatedBatch | None:
    """Return the batch of the evaluation between steps, if there is one."""
    evaluation = workload.evaluation
    if evaluation is None:
        return None
    evaluated = make_evaluated_workload(workload, evaluation)
    notes = describe_batch(setup.model, evaluated)
    return EvaluatedBatch(
        build_evaluation_pass(setup, evaluated, evaluation),
        sizes.evaluate_monomials(*evaluated.rows),
        notes._replace(evaluates=True),
    )


def make_evaluated_workload(workload: TrainWorkload, evaluation: Evaluation) -> TrainWorkload:
    """Return the workload whose micro batch is a batch of the evaluation.

    Compiled code is counted as the model's own, which takes no less.
    """
    return replace(
        workload,
        micro_batch_size=evaluation.batch_size,
        sequence_length=evaluation.sequence_length or workload.sequence_length,
        gradient_accumulation_steps=1,
        loss=resolve_evaluation_loss(workload, evaluation),
        compile=False,
        evaluation=None,
    )


def resolve_evaluation_loss(workload: TrainWorkload, evaluation: Evaluation) -> Loss:
    """Return how an evaluation treats the logits.

    Liger's loss with the head inside leaves them out where Trainer asks for losses alone; its
    models make all of them else (liger-kernel 0.8, ``transformers/model/llama.py``,
    ``lce_forward``).
    """
    if evaluation.loss is not None:
        return evaluation.loss
    if workload.loss is Loss.FUSED_LINEAR:
        release = parse_transformers_release(workload.framework_version)
        if evaluation.kept_batches or not skips_logits(release):
            return Loss.FULL_LOGITS
    return workload.loss


def build_evaluation_pass(
    setup: TrainSetup, evaluated: TrainWorkload, evaluation: Evaluation
) -> TrainingPass:
    """Return the settings that decide the tensors of an evaluated batch.

    Nothing is computed again, and there is no gradient.
    """
    return replace(
        build_setup_pass(setup, resolve_batch_shape(setup.model, evaluated)),
        accumulating=False,
        checkpointing=Checkpointing.NONE,
        recompute_every=None,
        reentrant=False,
        offloads_inputs=False,
        steps_in_backward=None,
        keeps_logits=False,
        evaluation=EvaluationPass(
            kept_batches=evaluation.kept_batches or 0, ranks=setup.layout.num_gpus
        ),
    )
