"""Steps with Liger's kernels, held against liger-kernel 0.8 on small models.

The bytes are sums of live storages under fake tensors (torch 2.13, transformers 5.23, liger-kernel
0.8.5 with its Triton kernels left out, which allocate nothing).
"""

from typing import Any

import pytest

from service.estimator.estimate import estimate
from service.estimator.memory.timeline import build_train_timeline
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.tape.ops import liger
from service.estimator.values.errors import EstimatorError
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.losses import Kernels, Loss
from service.estimator.values.workload import Checkpointing, Framework, Lora, Method, TrainWorkload
from tests.builders import a_device, a_model, a_sharded_layout, a_training
from tests.tiny_shapes import WIDE_LLAMA as _LLAMA

_QWEN3 = _LLAMA | {"model_type": "qwen3", "head_dim": 32}
_BATCH = 2
_ROW_BYTES = 8
"""Labels of one sequence, which the estimator counts once for all: no polynomial is 0 for one and
full for two.
"""
_LOSS_BYTES = 4
"""The loop's own name for the loss, which the estimator does not count."""
_LORA = {"method": Method.LORA, "lora": Lora(rank=8)}
_FULL = {"activation_checkpointing": Checkpointing.FULL}


def _workload(**changes: Any) -> TrainWorkload:  # noqa: ANN401 - each its own type
    given: dict[str, Any] = {
        "micro_batch_size": _BATCH,
        "sequence_length": 64,
        "optimizer": "adamw_fused",
        "kernels": Kernels.LIGER,
        "loss": Loss.FUSED_LINEAR,
    }
    return a_training(**(given | changes))


@pytest.mark.parametrize(
    ("config", "changes", "forward", "backward"),
    [
        (_LLAMA, {"precision": "bf16"}, 279171532, 345816316),
        (_LLAMA, {"precision": "bf16", "sequence_length": 1000, **_FULL}, 283101204, 346789756),
        (_LLAMA, {"precision": "amp_bf16"}, 691772876, 691631356),
        (_LLAMA, {"precision": "amp_bf16", "sequence_length": 1000, **_FULL}, 700788244, 693563260),
        (_LLAMA, {"precision": "amp_bf16", "sequence_length": 1000, **_LORA}, 282404240, 218061880),
        (_QWEN3, {"precision": "bf16"}, 279486052, 345817876),
        (_QWEN3, {"precision": "amp_bf16"}, 692088548, 691634452),
        (_QWEN3, {"precision": "amp_bf16", "sequence_length": 1000, **_LORA}, 287301008, 222958648),
    ],
)
def test_a_step_is_that_of_liger(
    monkeypatch: pytest.MonkeyPatch,
    config: dict[str, object],
    changes: dict[str, Any],
    forward: int,
    backward: int,
) -> None:
    """Norms, rotations, gated products and the loss are counted to the byte.

    The trace had one multiprocessor, which a CPU counts as.
    """
    monkeypatch.setattr(liger, "NUM_PROGRAMS", 1)
    workload = _workload(**changes)
    timeline = build_train_timeline(architecture_from_config(config), workload, Layout())

    phases = dict(timeline.phases)
    assert phases["forward_pass"] == forward - _ROW_BYTES * workload.sequence_length
    assert phases["backward_pass"] == backward - _LOSS_BYTES


def test_the_loss_of_a_frozen_model_casts_its_head_again() -> None:
    """The forward peak without trained weights is in a layer; adapters leave the head frozen."""
    workload = _workload(precision="bf16", **_LORA, **_FULL)
    timeline = build_train_timeline(architecture_from_config(_LLAMA), workload, Layout())

    assert dict(timeline.phases)["forward_pass"] == 72877864


@pytest.mark.parametrize(
    ("changes", "layout", "says"),
    [
        ({"kernels": Kernels.LIGER, "framework": Framework.TORCHTITAN}, Layout(), "kernels liger"),
        ({"kernels": Kernels.LIGER}, a_sharded_layout(8, sharding=Sharding.FSDP2), "sharded"),
        (
            {"kernels": Kernels.UNSLOTH},
            a_sharded_layout(8, sharding=Sharding.FSDP2),
            "unsloth over",
        ),
    ],
)
def test_what_has_no_term_is_refused(changes: dict[str, Any], layout: Layout, says: str) -> None:
    """Liger's kernels are refused where nobody counted them."""
    workload = _workload(precision="bf16", loss=Loss.FULL_LOGITS, **changes)

    with pytest.raises(EstimatorError, match=says):
        estimate(a_model(), workload, layout=layout, device=a_device())


def test_a_family_without_kernels_is_refused() -> None:
    """The refusal names those whose terms are known."""
    model = a_model(family="phi3")

    with pytest.raises(EstimatorError, match=r"kernels liger of phi3.*llama"):
        estimate(model, _workload(precision="bf16"), layout=Layout(), device=a_device())
