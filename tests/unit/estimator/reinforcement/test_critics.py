"""A critic beside a policy: what it keeps there, and phases of its own."""

from dataclasses import replace
from typing import Any

import pytest

from service.estimator.estimate import estimate
from service.estimator.reinforcement.critic import build_training, build_value_model
from service.estimator.values.batches import SequencePacking
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.generation import Critic, Rollout
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.losses import Loss, Trainer
from service.estimator.values.result import Detail, Estimate
from service.estimator.values.workload import (
    Checkpointing,
    Lora,
    Method,
    Offload,
    OffloadTarget,
    TrainWorkload,
)
from service.planner.fit.changes import to_json_value
from tests.builders import a_device, a_model, a_training

_MODEL = a_model(
    hidden_size=2048,
    num_hidden_layers=8,
    num_attention_heads=32,
    num_key_value_heads=8,
    head_dim=64,
    intermediate_size=8192,
)
_ASLEEP = Rollout(gpu_memory_fraction=0.5, sleep_level=2, own_process=True)
_STATES = {"weights", "optimizer_states", "master_weights"}


def _ppo(critic: Critic | None, **changes: Any) -> TrainWorkload:  # noqa: ANN401 - each its own type
    given: dict[str, Any] = {"micro_batch_size": 4, "sequence_length": 1024, "precision": "bf16"}
    given |= {"loss": Loss.FLASH_CROSS_ENTROPY, "trainer": Trainer.GRPO, "critic": critic}
    return a_training(**(given | changes))


def _ask(workload: TrainWorkload, layout: Layout | None = None, **how: Any) -> Estimate:  # noqa: ANN401 - as the door's own
    return estimate(_MODEL, workload, layout=layout or Layout(), device=a_device(), **how)


def _get_instants(answer: Estimate) -> dict[str, int]:
    return {instant.name: instant.allocated_bytes for instant in answer.instants}


def _count_states(answer: Estimate) -> int:
    return sum(part.bytes for part in answer.components if part.name in _STATES)


def test_a_critic_is_an_ordinary_training_beside_the_policys_states() -> None:
    """Its update is the step that is asked by itself, plus what the policy keeps."""
    workload = _ppo(Critic())
    answer, policy = _ask(workload), _ask(_ppo(None))
    model = build_value_model(_MODEL, Critic())
    alone = estimate(model, build_training(workload, Critic()), layout=Layout(), device=a_device())

    moments, kept = _get_instants(answer), _count_states(policy)
    assert moments["critic_update"] == alone.allocated_bytes + kept
    assert moments["backward"] - _get_instants(policy)["backward"] == _count_states(alone)
    assert moments["values"] - kept == _get_instants(alone)["evaluation"]


def test_its_head_is_one_number_per_token() -> None:
    """A weight and a bias of one output stand for the head over the vocabulary."""
    model = build_value_model(_MODEL, Critic())

    head = _MODEL.spec.hidden_size + 1
    assert model.counts.total == _MODEL.counts.total - _count_head() + head


def _count_head() -> int:
    spec = _MODEL.spec
    return 0 if spec.tie_word_embeddings else spec.hidden_size * _MODEL.vocab_size


@pytest.mark.parametrize("rollout", [None, _ASLEEP, replace(_ASLEEP, sleep_level=0)])
@pytest.mark.parametrize(
    "critic", [Critic(), Critic(micro_batch_size=16), Critic(own_process=True)]
)
def test_components_sum_to_the_bytes_of_the_device(critic: Critic, rollout: Rollout | None) -> None:
    """So do the parts of every instant to its own, and numbers alone are the same."""
    workload = _ppo(critic, rollout=rollout)
    answer, numbers = _ask(workload), _ask(workload, detail=Detail.NUMBERS)

    assert sum(component.bytes for component in answer.components) == answer.device_bytes
    for instant in answer.instants:
        assert sum(instant.parts.values()) == instant.allocated_bytes, instant.name
    assert numbers.device_bytes == answer.device_bytes


def test_what_is_moved_to_the_host_leaves_room_for_the_others() -> None:
    """Weights come back for its values, states for its update alone."""
    kept = _ask(_ppo(Critic(), rollout=_ASLEEP))
    moved = _ask(_ppo(Critic(offload_parameters=True, offload_optimizer=True), rollout=_ASLEEP))

    before, after = _get_instants(kept), _get_instants(moved)
    parts = next(moment.parts for moment in kept.instants if moment.name == "rollout")
    weights, states = parts["critic_weights"], parts["critic_optimizer_states"]
    assert before["values"] - after["values"] == states
    for name in ("rollout", "log_probs", "backward"):
        assert before[name] - after[name] == weights + states, name
    assert before["critic_update"] == after["critic_update"]
    assert moved.host_bytes_per_node - kept.host_bytes_per_node == weights + states


def test_a_policy_on_the_host_makes_room_for_the_critic() -> None:
    """The flags of its rollout say so, for whoever else works."""
    moved = replace(_ASLEEP, offload_parameters=True, offload_optimizer=True)
    before, after = (
        _get_instants(_ask(_ppo(Critic(), rollout=rollout))) for rollout in (_ASLEEP, moved)
    )

    states = _count_states(_ask(_ppo(None)))
    assert before["critic_update"] - after["critic_update"] == states


def test_larger_micro_batches_of_a_critic_let_its_update_decide() -> None:
    """The phase that takes most is named, whoever's it is."""
    answer = _ask(_ppo(Critic(micro_batch_size=64)))

    assert answer.peak_instant == "critic_update"
    assert "critic_activations" in {part.name for part in answer.components}


def test_sequences_without_padding_are_one_row_of_a_critic() -> None:
    """A token classifier reads rows; attention sees no difference."""
    workload = _ppo(Critic(values_batch_size=8), packing=SequencePacking.PADDING_FREE)
    assert workload.critic is not None
    training = build_training(workload, workload.critic)

    assert training.rows == (1, 4096)
    assert training.evaluation is not None
    assert training.evaluation.batch_size == 1
    assert training.evaluation.sequence_length == 8192


def test_a_critic_trains_all_weights_unless_it_has_adapters() -> None:
    """The policy's adapters are the policy's."""
    adapted = _ppo(None, method=Method.LORA, lora=Lora(rank=8))
    methods = [
        build_training(adapted, Critic(adapters=adapters)).method for adapters in (False, True)
    ]

    assert methods == [Method.FULL, Method.LORA]


def test_its_layers_are_computed_again_as_it_says() -> None:
    """None is as the policy has it."""
    policy = _ppo(None, activation_checkpointing=Checkpointing.FULL)
    kinds = [
        build_training(policy, Critic(checkpointed=word)).activation_checkpointing
        for word in (None, False, True)
    ]

    assert kinds == [Checkpointing.FULL, Checkpointing.NONE, Checkpointing.FULL]


def test_flat_gradients_of_verl_are_gone_between_its_phases() -> None:
    """FSDP1 leaves them where parameters are views, which verl's are not."""
    layout = Layout(data_parallel=4, zero_stage=3, sharding=Sharding.FSDP1)
    answer = _ask(_ppo(Critic(), rollout=_ASLEEP), layout)

    parts = next(moment.parts for moment in answer.instants if moment.name == "rollout")
    assert "gradients" not in parts
    assert "critic_other" not in parts


def test_offloaded_states_of_both_are_on_the_host() -> None:
    """A layout's own offloading holds for the critic too."""
    offload = Offload(optimizer=OffloadTarget.CPU)
    layout = Layout(data_parallel=2, zero_stage=3, sharding=Sharding.DEEPSPEED)
    alone, beside = (
        _ask(_ppo(critic, offload=offload, precision="deepspeed_bf16"), layout)
        for critic in (None, Critic())
    )

    assert beside.host_bytes_per_node > alone.host_bytes_per_node


def test_a_critic_is_a_policys() -> None:
    """Plain training has none."""
    with pytest.raises(InvalidInputError, match="critic is trainer grpo's"):
        a_training(critic=Critic())


def test_counts_below_one_are_refused() -> None:
    """With the number."""
    with pytest.raises(InvalidInputError, match="values_batch_size is 0"):
        Critic(values_batch_size=0)


def test_a_critic_is_rendered_as_it_was_asked_for() -> None:
    """Its model by its name, and what is no default."""
    critic = Critic(config="{}", name="qwen2.5-7b", micro_batch_size=2, offload_optimizer=True)

    assert to_json_value(critic) == {
        "model": "qwen2.5-7b",
        "micro_batch_size": 2,
        "offload_optimizer": True,
    }
