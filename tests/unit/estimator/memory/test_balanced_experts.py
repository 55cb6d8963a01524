"""The loss that balances experts, which TRL adds to its own.

Held against a step of transformers 5.23's OLMoE with ``output_router_logits`` under fake tensors:
beside one without, it held 4 bytes for each layer, token and expert when the loss was there, and 2
at the highest point of forward and of backward.
"""

from dataclasses import replace

import pytest

from service.estimator.memory.timeline import build_train_timeline
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.rules.transformers import check_in_transformers
from service.estimator.values.errors import NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.losses import BALANCED_FAMILIES, Loss, Trainer
from service.estimator.values.workload import Attention
from tests.builders import a_training

_LAYERS, _TOKENS, _EXPERTS = 4, 512, 64
_ROUTED = _LAYERS * _TOKENS * _EXPERTS
_OLMOE = architecture_from_config(
    {
        "model_type": "olmoe",
        "hidden_size": 64,
        "intermediate_size": 32,
        "num_hidden_layers": _LAYERS,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "vocab_size": 512,
        "num_experts": _EXPERTS,
        "num_experts_per_tok": 8,
        "max_position_embeddings": 4096,
    }
)


def _measure_phases(model: Architecture, loss: Loss) -> dict[str, int]:
    workload = a_training(
        precision="bf16", micro_batch_size=2, sequence_length=_TOKENS // 2, loss=loss
    )
    return dict(build_train_timeline(model, workload, Layout()).phases)


@pytest.mark.parametrize("loss", [Loss.NLL, Loss.DFT])
def test_balancing_keeps_what_a_real_step_kept(loss: Loss) -> None:
    """Of the logits of all routers, and of their softmax, while both are read."""
    unbalanced = replace(_OLMOE, spec=replace(_OLMOE.spec, family="deepseek_v2"))

    with_balance, without = _measure_phases(_OLMOE, loss), _measure_phases(unbalanced, loss)

    added = {name: (with_balance[name] - without[name]) / _ROUTED for name in without}
    assert added == {"forward_pass": 2, "backward_pass": 2, "optimizer_step": 0}


def test_losses_of_other_experts_are_refused_by_name() -> None:
    """TRL 1.16 reads a number of experts that some configs do not have."""
    unknown = replace(_OLMOE, spec=replace(_OLMOE.spec, family="granitemoe"))

    with pytest.raises(NotModelledError, match="experts of granitemoe") as caught:
        check_in_transformers(unknown, a_training(loss=Loss.NLL), Layout())

    assert set(caught.value.modelled) >= BALANCED_FAMILIES
    for loss in (Loss.FULL_LOGITS, Loss.FUSED_CROSS_ENTROPY):
        assert any(f"loss {loss.value}" in offered for offered in caught.value.modelled)
        check_in_transformers(unknown, a_training(loss=loss), Layout())
    check_in_transformers(_OLMOE, a_training(loss=Loss.NLL, trainer=Trainer.SUPERVISED), Layout())


def test_a_policy_with_experts_is_offered_losses_that_it_takes() -> None:
    """TRL's loss is refused whatever the family, so that no family is offered in its place."""
    policy = a_training(trainer=Trainer.GRPO, loss=Loss.CHUNKED_NLL, attention=Attention.FLASH)

    with pytest.raises(NotModelledError, match="with trainer grpo") as caught:
        check_in_transformers(_OLMOE, policy, Layout())

    assert len(caught.value.modelled) == 2
    for offered in caught.value.modelled:
        loss = Loss(offered.removeprefix("loss "))
        check_in_transformers(_OLMOE, replace(policy, loss=loss), Layout())
