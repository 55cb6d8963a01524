"""An evaluation between steps holds what transformers' Trainer holds in its loop."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel, Trainer, TrainingArguments
from transformers.trainer_pt_utils import EvalLoopContainer

from service.catalog.gpus import resolve_device
from service.estimator.estimate import estimate
from service.estimator.memory.evaluated_batch import build_evaluation_pass, make_evaluated_workload
from service.estimator.memory.setup import resolve_setup
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.passes.recorder import record_training
from service.estimator.tape import sizes
from service.estimator.values.batches import Evaluation
from service.estimator.values.corrections import (
    Corrections,
    InstantCorrection,
)
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.losses import Kernels, Loss
from service.estimator.values.precision import POLICIES
from service.estimator.values.result import Detail
from service.estimator.values.workload import Attention, Checkpointing, TrainWorkload
from service.probing.stack import get_layer_stack
from tests.builders import a_model
from tests.tiny_models import tiny_config
from tests.tiny_shapes import WIDE_LLAMA
from worker.probes.attention.names import Kernel
from worker.probes.attention.trace_dispatch import make_trace_context
from worker.probes.models.inputs import Batch, make_training_batch
from worker.probes.run.assemble import assemble
from worker.probes.run.recorder import mark
from worker.probes.trace.cuda_kernels import SCRATCH
from worker.probes.trace.known_values import (
    disable_packing_detection,
    move_in_place,
    report_cuda_autocast,
    skip_full_masks,
)
from worker.probes.trace.ledger import Ledger
from worker.probes.trace.recorder import record_storages
from worker.probes.trace.run import make_fake_mode

STEP = TrainWorkload(
    sequence_length=2048,
    micro_batch_size=2,
    precision=POLICIES["amp_bf16"],
    activation_checkpointing=Checkpointing.FULL,
)
H100 = resolve_device("H100-SXM5-80GB")
LIGER = {"loss": Loss.FUSED_LINEAR, "kernels": Kernels.LIGER}


class Loader:
    """A loader that makes each batch when it is asked for."""

    def __init__(self, model: PreTrainedModel, workload: TrainWorkload, num_batches: int) -> None:
        """Make ``num_batches`` of a workload."""
        self._model, self._workload, self._num_batches = model, workload, num_batches

    def __len__(self) -> int:
        """Return the number of batches."""
        return self._num_batches

    def __iter__(self) -> Iterator[Batch]:
        """Yield a new batch each time."""
        batch_size, length = self._workload.rows
        for _ in range(self._num_batches):
            yield make_training_batch(
                self._model, self._workload, micro_batch_size=batch_size, sequence_length=length
            )


def trace_evaluation(
    family: str, workload: TrainWorkload, kept: int, folder: Path, patch: pytest.MonkeyPatch
) -> int:
    """Return the highest bytes of Trainer's own loop beside the weights."""
    # Fake tensors have no values that could be moved to the host.
    patch.setattr(
        EvalLoopContainer, "to_cpu_and_numpy", lambda kept: setattr(kept, "tensors", None)
    )
    is_mixed, config = workload.precision.autocast, tiny_config(family)
    with ExitStack() as stack:
        for context in (
            *(disable_packing_detection(), skip_full_masks(), move_in_place(), make_fake_mode()),
            report_cuda_autocast(torch.bfloat16 if is_mixed else None),
            make_trace_context(workload.attention)(Kernel.FLASH),
        ):
            stack.enter_context(context)
        recorder = stack.enter_context(record_storages(SCRATCH))
        layers = get_layer_stack(architecture_from_config(config)).layers
        model = assemble(
            config, workload, layers=layers, kernel=Kernel.FLASH, device="cpu"
        ).hf_model
        arguments = TrainingArguments(
            output_dir=str(folder), use_cpu=True, report_to=[], bf16=is_mixed, disable_tqdm=True
        )
        trainer = Trainer(model=model, args=arguments)
        model.config.use_cache = False
        patch.setattr(trainer.accelerator, "pad_across_processes", lambda tensors, **_: tensors)
        mark("evaluation")
        loader = Loader(model, workload, kept or 2)
        trainer.evaluation_loop(loader, "Evaluation", prediction_loss_only=not kept)  # type: ignore[arg-type]  # it is iterated over, no more
        mark("end")
        return _count_bytes_added(recorder.ledger)


def _count_bytes_added(ledger: Ledger) -> int:
    totals = ledger.live()
    begin, end = next((first, last) for name, first, last in ledger.spans() if name == "evaluation")
    return max(totals[begin:end]) - totals[begin - 1]


def count_evaluation(
    model: Architecture, workload: TrainWorkload, evaluation: Evaluation, layout: Layout
) -> int:
    """Return the highest bytes of the recorded evaluation beside what is resident."""
    evaluated = make_evaluated_workload(workload, evaluation)
    config = build_evaluation_pass(resolve_setup(model, workload, layout), evaluated, evaluation)
    values = sizes.evaluate_monomials(*evaluated.rows)
    recorded = record_training(model, config).values()
    return max(sizes.evaluate(point.bytes, values) for points in recorded for point in points)


@pytest.mark.parametrize(
    ("family", "policy", "kept"),
    [("gpt2", "bf16", 0), ("llama", "amp_bf16", 3), ("t5", "bf16", 2)],
)
def test_an_evaluation_holds_what_trainer_holds(
    family: str, policy: str, kept: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To a tenth of a percent: labels of padding are counted by their polynomial."""
    workload = TrainWorkload(
        sequence_length=64,
        decoder_length=32 if family == "t5" else None,
        precision=POLICIES[policy],
        activation_checkpointing=Checkpointing.FULL,
    )
    evaluation = Evaluation(batch_size=2, kept_batches=kept)
    model = architecture_from_config(tiny_config(family))

    said = count_evaluation(model, workload, evaluation, Layout())
    evaluated = make_evaluated_workload(workload, evaluation)
    found = trace_evaluation(family, evaluated, kept, tmp_path, monkeypatch)

    assert said == pytest.approx(found, rel=1e-3)


@pytest.mark.parametrize(
    ("words", "policy", "evaluation", "traced"),
    [
        ({"loss": Loss.NLL}, "bf16", {"sequence_length": 200}, 39779129),
        ({"loss": Loss.NLL}, "bf16", {"sequence_length": 200, "kept_batches": 2}, 615643296),
        ({"loss": Loss.NLL}, "amp_bf16", {"sequence_length": 200}, 61815273),
        ({"loss": Loss.NLL}, "amp_bf16", {"sequence_length": 200, "kept_batches": 2}, 1231272096),
        (LIGER, "bf16", {}, 25420836),
        (LIGER, "bf16", {"loss": Loss.FULL_LOGITS}, 1154793668),
        (LIGER, "bf16", {"kept_batches": 2}, 1385661668),
        (LIGER, "amp_bf16", {}, 72407632),
        (LIGER, "amp_bf16", {"loss": Loss.FULL_LOGITS}, 1225271492),
        (LIGER, "amp_bf16", {"kept_batches": 2}, 1846908096),
    ],
)
def test_losses_without_logits_are_evaluated_as_their_clients_do(
    words: dict[str, Any], policy: str, evaluation: dict[str, Any], traced: int
) -> None:
    """TRL makes logits in a second pass where metrics need them, Liger in the same.

    The bytes are those of TRL 1.16's head and of liger-kernel 0.8.5 in transformers' own loop, with
    kernels of Triton left out, and with copies of the labels (8 bytes a token) and scalars.
    """
    workload = TrainWorkload(
        sequence_length=300,
        precision=POLICIES[policy],
        attention=Attention.EAGER,
        **words,
    )
    evaluated = Evaluation(batch_size=3, **evaluation)
    labels = 8 * 3 * (evaluated.sequence_length or 300)

    said = count_evaluation(architecture_from_config(WIDE_LLAMA), workload, evaluated, Layout())

    assert 0 <= traced - said - labels <= labels / 2


@pytest.mark.parametrize(
    ("release", "loss"),
    [("5.14.1", Loss.FULL_LOGITS), ("5.15.0", Loss.FUSED_LINEAR), (None, Loss.FUSED_LINEAR)],
)
def test_liger_makes_logits_before_trainer_asked_for_none(release: str | None, loss: Loss) -> None:
    """Trainer has told its kernels to leave them out since 5.15."""
    workload = replace(STEP, loss=Loss.FUSED_LINEAR, framework_version=release)

    assert make_evaluated_workload(workload, Evaluation()).loss is loss


def test_corrections_are_held_against_the_evaluation_in_every_detail() -> None:
    """What is too much for a step alone is none beside a larger evaluation."""
    model, workload = a_model(), replace(STEP, evaluation=Evaluation(batch_size=16))
    step = estimate(model, STEP, layout=Layout(), device=H100).allocated_bytes
    learnt = Corrections(
        calibration="c", instants={"loss": InstantCorrection(fixed_bytes=step)}, proven=False
    )

    bases = {
        estimate(
            model, workload, layout=Layout(), device=H100, corrections=learnt, detail=detail
        ).basis
        for detail in (Detail.NUMBERS, Detail.FULL)
    }
    alone = estimate(model, STEP, layout=Layout(), device=H100, corrections=learnt)

    assert bases == {"calibrated"}
    assert alone.basis == "analytic"


def test_a_large_evaluation_decides_in_every_detail() -> None:
    """A search, an explained answer and a replayed one name the same bytes."""
    model, workload = a_model(), replace(STEP, evaluation=Evaluation(batch_size=16))

    answers = [
        estimate(model, workload, layout=Layout(), device=H100, detail=detail)
        for detail in (Detail.NUMBERS, Detail.FULL, Detail.REPLAYED)
    ]
    step = estimate(model, STEP, layout=Layout(), device=H100, detail=Detail.REPLAYED)

    assert {answer.peak_instant for answer in answers} == {"evaluation"}
    assert len({answer.allocated_bytes for answer in answers}) == 1
    assert answers[-1].replayed
    assert answers[-1].reserved_bytes > step.reserved_bytes
    assert "16 x 2048 tokens" in next(
        part.formula for part in answers[1].components if part.name == "activations"
    )


def test_a_small_evaluation_changes_no_peak() -> None:
    """Its bytes stand among the instants."""
    workload = replace(STEP, evaluation=Evaluation(batch_size=1, sequence_length=128))

    answer = estimate(a_model(), workload, layout=Layout(), device=H100)
    step = estimate(a_model(), STEP, layout=Layout(), device=H100)

    assert answer.allocated_bytes == step.allocated_bytes
    assert [instant.name for instant in answer.instants] == [
        *[instant.name for instant in step.instants],
        "evaluation",
    ]


def test_logits_that_nobody_told_of_are_warned_of() -> None:
    """They are counted as none, in the same bytes, which only who says so has no warning of."""
    answers = [
        estimate(
            a_model(),
            replace(STEP, evaluation=Evaluation(kept_batches=kept)),
            layout=Layout(),
            device=H100,
        )
        for kept in (None, 0)
    ]

    told = [any("kept_batches is not said" in line for line in one.warnings) for one in answers]
    assert told == [True, False]
    assert answers[0].allocated_bytes == answers[1].allocated_bytes


def test_kept_logits_are_gathered_over_all_ranks() -> None:
    """The copy of all batches is made while those before it are still there."""
    model, ranks = a_model(), 4
    layout = Layout(data_parallel=ranks, sharding=Sharding.DDP)
    kept = [
        count_evaluation(model, STEP, Evaluation(batch_size=2, kept_batches=batches), layout)
        for batches in (50, 51)
    ]

    logits, labels = 4 * model.vocab_size, 8
    assert kept[1] - kept[0] == ranks * 2 * STEP.sequence_length * (2 * logits + labels)
