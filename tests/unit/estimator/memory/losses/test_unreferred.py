"""Steps of pairs without a reference, held against TRL's own code on a small llama.

The bytes are sums of live storages under fake tensors (torch 2.13, transformers 5.23) of TRL
1.16's ``get_batch_loss_metrics`` of ORPO and CPO, with its Triton kernel left out, which allocates
what is counted, and with ``selective_log_softmax`` as it was before 1.14.
"""

import pytest

from service.estimator.estimate import estimate
from service.estimator.memory.timeline import build_train_timeline
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.speed.stretches import count_scoring_passes
from service.estimator.values.errors import EstimatorError, InvalidInputError
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.losses import Loss, Reference, Trainer
from service.estimator.values.workload import TrainWorkload
from tests.builders import a_device, a_model, a_sharded_layout, a_training
from tests.tiny_shapes import WIDE_LLAMA

_KERNEL, _SELECTIVE = Loss.FULL_LOGITS, Loss.SELECTIVE


def _pairs(trainer: Trainer, loss: Loss, precision: str, length: int = 64) -> TrainWorkload:
    return a_training(
        trainer=trainer,
        loss=loss,
        precision=precision,
        micro_batch_size=2,
        sequence_length=length,
        optimizer="adamw_fused",
    )


@pytest.mark.parametrize(
    ("trainer", "loss", "precision", "length", "forward", "backward"),
    [
        (Trainer.ORPO, _KERNEL, "bf16", 64, 349504304, 411425034),
        (Trainer.ORPO, _KERNEL, "bf16", 512, 1332781872, 1596418898),
        (Trainer.ORPO, _SELECTIVE, "bf16", 64, 381828100, 411425030),
        (Trainer.ORPO, _KERNEL, "amp_bf16", 64, 761996596, 829708632),
        (Trainer.ORPO, _KERNEL, "amp_bf16", 512, 2679350580, 3206681944),
        (Trainer.CPO, _KERNEL, "bf16", 512, 1332781872, 1596418898),
        (Trainer.CPO, _KERNEL, "amp_bf16", 64, 761996596, 829708632),
        (Trainer.SIMPO, _KERNEL, "bf16", 64, 284868588, 411425036),
        (Trainer.SIMPO, _KERNEL, "bf16", 512, 808514284, 1332765444),
        (Trainer.SIMPO, _SELECTIVE, "bf16", 512, 1332800276, 1332724560),
        (Trainer.SIMPO, _KERNEL, "amp_bf16", 64, 698378556, 761994504),
        # Under fake tensors a gather's gradient is made twice, which CUDA adds in place.
        (Trainer.ORPO, _SELECTIVE, "amp_bf16", 64, 761996596, 1085198620 - 4 * 63 * 128256 * 4),
        (Trainer.SIMPO, _SELECTIVE, "amp_bf16", 64, 698378556, 1020556584 - 4 * 63 * 128256 * 4),
    ],
)
def test_a_step_of_pairs_is_that_of_trl(
    trainer: Trainer, loss: Loss, precision: str, length: int, forward: int, backward: int
) -> None:
    """All logits, a copy and the log-softmax of the chosen half, and gradients of all of them.

    Masks and sums of a few bytes a token are all that differs.
    """
    model = architecture_from_config(WIDE_LLAMA)
    timeline = build_train_timeline(model, _pairs(trainer, loss, precision, length), Layout())
    phases = dict(timeline.phases)

    assert phases["forward_pass"] == pytest.approx(forward, rel=3e-5)
    assert phases["backward_pass"] == pytest.approx(backward, rel=3e-5)


def test_sharded_weights_are_gathered_as_in_any_step() -> None:
    """Nothing but the model's own forward reads them, unlike DPO's head."""
    layout = a_sharded_layout(8, sharding=Sharding.FSDP2)
    workload = _pairs(Trainer.ORPO, _KERNEL, "amp_bf16")

    answer = estimate(a_model(), workload, layout=layout, device=a_device())

    assert answer.allocated_bytes > 0
    assert count_scoring_passes(workload) == 0


def test_what_these_trainers_lack_is_refused() -> None:
    """There is no reference, and no loss within the head."""
    with pytest.raises(InvalidInputError, match="dpo and kto have one"):
        a_training(trainer=Trainer.ORPO, reference=Reference.MODEL)
    with pytest.raises(EstimatorError, match="makes all logits"):
        estimate(
            a_model(),
            _pairs(Trainer.CPO, Loss.CHUNKED_NLL, "bf16"),
            layout=Layout(),
            device=a_device(),
        )
