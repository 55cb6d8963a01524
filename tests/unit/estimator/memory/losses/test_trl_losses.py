"""Steps with TRL's losses, held against TRL's own head on a small llama.

The bytes are sums of live storages under fake tensors (torch 2.13, transformers 5.23, TRL 1.16's
``ChunkedLogProbFunction`` with its Triton kernels left out, which allocate nothing).
"""

from dataclasses import replace
from typing import Any

import pytest

from service.estimator.estimate import estimate
from service.estimator.memory.timeline import build_train_timeline
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.errors import NotModelledError
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.losses import Loss, Reference, Trainer
from service.estimator.values.workload import Checkpointing, Lora, Method, TrainWorkload
from tests.builders import a_device, a_mixture, a_model, a_sharded_layout, a_training
from tests.tiny_shapes import WIDE_LLAMA

_LOSS_BYTES = 4
"""The loop's own name for the loss, which the estimator does not count."""
_LORA = {"method": Method.LORA, "lora": Lora(rank=8)}
_LONG = {"sequence_length": 3000, "activation_checkpointing": Checkpointing.FULL}
_SHORT = {"activation_checkpointing": Checkpointing.FULL}


def _workload(loss: Loss, **changes: Any) -> TrainWorkload:  # noqa: ANN401 - each its own type
    given: dict[str, Any] = {
        "micro_batch_size": 2,
        "sequence_length": 64,
        "optimizer": "adamw_fused",
    }
    return a_training(loss=loss, **(given | changes))


@pytest.mark.parametrize("loss", [Loss.CHUNKED_NLL, Loss.NLL, Loss.DFT])
@pytest.mark.parametrize(
    ("changes", "forward", "backward"),
    [
        ({"precision": "bf16"}, 222954322, 420079514),
        ({"precision": "amp_bf16"}, 455392626, 691631356),
        ({"precision": "bf16", **_LONG}, 503870394, 706820610),
        ({"precision": "amp_bf16", **_LONG}, 755875546, 899538946),
        ({"precision": "bf16", **_LORA, **_SHORT}, 80084798, 80208774),
        ({"precision": "amp_bf16", **_LORA, **_SHORT}, 167501918, 184053126),
    ],
)
def test_a_step_is_that_of_trl(
    loss: Loss, changes: dict[str, Any], forward: int, backward: int
) -> None:
    """Tiles, statistics, copies under autocast and fp32 gradients are counted to the byte."""
    model = architecture_from_config(WIDE_LLAMA)
    timeline = build_train_timeline(model, _workload(loss, **changes), Layout())

    phases = dict(timeline.phases)
    assert phases["forward_pass"] == forward
    assert phases["backward_pass"] == backward - _LOSS_BYTES


@pytest.mark.parametrize(
    "changes",
    [
        {"loss": Loss.CHUNKED_NLL},
        {"loss": Loss.DFT},
        {"loss": Loss.NLL, "sequence_length": 64, "sequence_lengths": ((1, 1),)},
        {"loss": Loss.NLL, "trainer": Trainer.DPO, "reference": Reference.MODEL},
        {"loss": Loss.NLL, "trainer": Trainer.KTO, "reference": Reference.ADAPTERS_OFF, **_LORA},
    ],
)
def test_a_sequence_of_one_token_has_nothing_to_score(changes: dict[str, Any]) -> None:
    """TRL's kernel runs over no rows: a zero loss, and less memory than two tokens take."""
    model = architecture_from_config(WIDE_LLAMA)
    one = _workload(**({"sequence_length": 1} | changes))
    two = replace(one, sequence_length=2, sequence_lengths=())

    assert 0 < _get_forward_bytes(model, one) < _get_forward_bytes(model, two)


def _get_forward_bytes(model: Architecture, workload: TrainWorkload) -> int:
    return dict(build_train_timeline(model, workload, Layout()).phases)["forward_pass"]


def test_the_head_takes_no_more_for_a_longer_batch() -> None:
    """Beyond one tile the loss grows by its copies of the hidden states alone."""
    model = architecture_from_config(WIDE_LLAMA)
    workload = _workload(Loss.CHUNKED_NLL, precision="bf16", micro_batch_size=1, **_SHORT)
    peaks = [
        next(
            peak.allocated_bytes
            for peak in build_train_timeline(
                model, replace(workload, sequence_length=length), Layout()
            ).peaks
            if peak.name == "loss"
        )
        for length in (8192, 16384)
    ]

    logits = 8192 * 128256 * 2
    assert 0 < peaks[1] - peaks[0] < logits / 10


@pytest.mark.parametrize(
    ("model", "layout", "says"),
    [
        (a_mixture(family="granitemoe"), Layout(), "router's balancing loss"),
        (a_model(), a_sharded_layout(8, sharding=Sharding.FSDP2), "over sharded weights"),
    ],
)
def test_what_trl_does_beside_is_refused(model: Any, layout: Layout, says: str) -> None:  # noqa: ANN401 - of any kind
    """Where TRL makes tensors that have no term, the refusal says which."""
    with pytest.raises(NotModelledError, match=says):
        estimate(
            model, _workload(Loss.CHUNKED_NLL, precision="bf16"), layout=layout, device=a_device()
        )
