"""A critic's values and its update, held against traces of transformers' own model.

The loss is that of PPO with clipped values, as verl and TRL compute it (verl 0.9
``trainer/ppo/core_algos.py``, ``compute_value_loss``).
"""

import gc
from contextlib import nullcontext

import pytest
import torch
from transformers import AutoConfig, AutoModelForTokenClassification

from service.estimator.estimate import estimate
from service.estimator.memory.timeline import build_train_timeline
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.reinforcement.critic import build_training, build_value_model
from service.estimator.values.generation import Critic
from service.estimator.values.layout import Layout
from service.estimator.values.losses import Loss, Trainer
from service.estimator.values.workload import Attention, Checkpointing
from tests.builders import a_device, a_training
from tests.tiny_shapes import WIDE_LLAMA
from worker.probes.attention.dispatch import use_kernel_dropout
from worker.probes.attention.names import Kernel
from worker.probes.attention.trace_dispatch import make_trace_context
from worker.probes.run.recorder import mark
from worker.probes.trace.cuda_kernels import SCRATCH
from worker.probes.trace.known_values import (
    disable_packing_detection,
    move_in_place,
    skip_full_masks,
)
from worker.probes.trace.ledger import compute_stretches
from worker.probes.trace.recorder import record_storages
from worker.probes.trace.run import make_fake_mode

_KERNELS = make_trace_context(Attention.SDPA)
_BATCH, _LENGTH, _CLIP = 2, 512, 0.5
_LOSS = 4
"""The loop's own name for the loss, which the estimator does not count."""


def _make_critic(*, checkpointed: bool) -> torch.nn.Module:
    config = AutoConfig.for_model(**WIDE_LLAMA)  # type: ignore[arg-type]  # a config's own fields
    config.num_labels, config.classifier_dropout, config.use_cache = 1, 0.0, False
    made = AutoModelForTokenClassification.from_config(config, dtype=torch.bfloat16)  # type: ignore[no-untyped-call]  # transformers leaves it untyped
    if checkpointed:
        recompute = {
            "use_reentrant": False,
            "preserve_rng_state": False,
            "context_fn": lambda: (nullcontext(), _KERNELS(Kernel.FLASH)),
        }
        made.activation_checkpointing_enable(recompute)
    critic: torch.nn.Module = made.train()
    return critic


def _lose(values: torch.Tensor, old: torch.Tensor, returns: torch.Tensor) -> torch.Tensor:
    clipped = torch.max(torch.min(values, old + _CLIP), old - _CLIP)
    return 0.5 * torch.max((values - returns) ** 2, (clipped - returns) ** 2).mean()


def _trace(*, checkpointed: bool) -> dict[str, int]:
    """Return the most bytes of each stretch beyond what is there before."""
    gc.collect()
    with (
        use_kernel_dropout(),
        disable_packing_detection(),
        skip_full_masks(),
        move_in_place(),
        make_fake_mode(),
        record_storages(SCRATCH) as recorder,
        _KERNELS(Kernel.FLASH),
    ):
        model = _make_critic(checkpointed=checkpointed)
        mark("values")
        ids = torch.zeros(_BATCH, _LENGTH, dtype=torch.long)
        old, returns = (torch.zeros(_BATCH, _LENGTH) for _ in range(2))
        with torch.no_grad():
            model(input_ids=ids)
        mark("forward")
        loss = _lose(model(input_ids=ids).logits.squeeze(-1), old, returns)
        mark("backward")
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        mark("end")
    ledger = recorder.ledger
    stretches = {stretch.name: stretch for stretch in compute_stretches(ledger, ledger.live())}
    start = stretches["values"].start
    return {name: stretches[name].live_peak - start for name in ("values", "forward", "backward")}


def _predict(kind: Checkpointing) -> dict[str, int]:
    """Return the same of an estimate, as it is asked for beside a policy."""
    policy = a_training(
        precision="bf16",
        sequence_length=_LENGTH,
        micro_batch_size=_BATCH,
        activation_checkpointing=kind,
        trainer=Trainer.GRPO,
        loss=Loss.FLASH_CROSS_ENTROPY,
    )
    model = build_value_model(architecture_from_config(WIDE_LLAMA), Critic())
    workload = build_training(policy, Critic())
    answer = estimate(model, workload, layout=Layout(), device=a_device())
    static = build_train_timeline(model, workload, Layout()).static_memory
    moments = {moment.name: moment.allocated_bytes for moment in answer.instants}
    phases = {phase.name: phase.allocated_bytes for phase in answer.phases}
    return {
        "values": moments["evaluation"] - static.resident_bytes,
        "forward": phases["forward_pass"] - static.resident_bytes,
        "backward": phases["backward_pass"] - static.resident_bytes,
    }


@pytest.mark.parametrize("kind", [Checkpointing.NONE, Checkpointing.FULL])
def test_a_critic_is_a_token_classifier_of_one_label(kind: Checkpointing) -> None:
    """Old values and returns are as large as a label, and the loss is no part of a peak."""
    traced = _trace(checkpointed=kind is Checkpointing.FULL)
    predicted = _predict(kind)

    assert predicted | {"backward": predicted["backward"] + _LOSS} == traced
