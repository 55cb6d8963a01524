"""Phases of a policy's training: the largest decides, and is named."""

from dataclasses import replace
from typing import Any

import pytest

from service.estimator.estimate import estimate
from service.estimator.values.device import Device
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import EstimatorError
from service.estimator.values.generation import Rollout, RolloutEngine
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.losses import Loss, Reference, Trainer
from service.estimator.values.result import Detail, Estimate
from service.estimator.values.units import GIB
from service.estimator.values.workload import Engine, Framework, ServeWorkload, TrainWorkload
from service.planner.fit.verdict import Verdict, judge
from tests.builders import a_model, a_training

_H100 = Device(
    name="H100-SXM5-80GB",
    capacity_bytes=80 * GIB,
    usable_bytes=79 * GIB,
    compute_capability="9.0",
)
_MODEL = a_model(
    vocab_size=128256,
    hidden_size=2048,
    num_hidden_layers=16,
    num_attention_heads=32,
    num_key_value_heads=8,
    head_dim=64,
    intermediate_size=8192,
    max_position_embeddings=8192,
)
_ASLEEP = Rollout(gpu_memory_fraction=0.8, sleep_level=2)
_VERL: dict[str, Any] = {"loss": Loss.FLASH_CROSS_ENTROPY}
_FSDP = Layout(data_parallel=4, zero_stage=3, sharding=Sharding.FSDP2)


def _grpo(rollout: Rollout | None, **changes: Any) -> TrainWorkload:  # noqa: ANN401 - each its own type
    given: dict[str, Any] = {"micro_batch_size": 4, "sequence_length": 1024, "precision": "bf16"}
    given |= {"completion_length": 512, "loss": Loss.NLL, "trainer": Trainer.GRPO}
    return a_training(rollout=rollout, **(given | changes))


def _ask(workload: TrainWorkload, layout: Layout | None = None, **how: Any) -> Estimate:  # noqa: ANN401 - as the door's own
    return estimate(_MODEL, workload, layout=layout or Layout(), device=_H100, **how)


def _get_instants(answer: Estimate) -> dict[str, int]:
    return {instant.name: instant.allocated_bytes for instant in answer.instants}


def test_an_engine_elsewhere_leaves_update_and_scores() -> None:
    """The update is an ordinary step, and decides."""
    answer = _ask(_grpo(None))

    assert "log_probs" in _get_instants(answer)
    assert not {"rollout", "weight_sync"} & set(_get_instants(answer))
    assert answer.peak_instant in {"loss", "backward"}
    assert answer.rollout is None


def test_an_engine_that_stays_awake_is_beside_every_phase() -> None:
    """Its share of the whole card is added to the update."""
    alone = _ask(_grpo(None))
    answer = _ask(_grpo(Rollout(gpu_memory_fraction=0.3)))

    assert answer.peak_instant == alone.peak_instant
    share = int(0.3 * _H100.usable_bytes)
    assert share <= answer.device_bytes - alone.device_bytes <= share + GIB
    assert answer.steady_bytes > alone.steady_bytes + share // 2


def test_an_engine_that_sleeps_is_beside_the_trainers_states_alone() -> None:
    """Two bars that are never added: the rollout decides, and activations are no part of it."""
    answer = _ask(_grpo(_ASLEEP))

    assert answer.peak_instant == "rollout"
    names = {component.name for component in answer.components}
    assert {"weights", "optimizer_states", "engine_weights", "engine_kv_cache"} <= names
    assert "activations" not in names
    assert judge(answer, _H100).verdict is Verdict.FITS


def test_more_micro_batches_let_the_update_decide() -> None:
    """Each phase is a maximum of its own, and the larger one is named."""
    answers = [_ask(_grpo(_ASLEEP, micro_batch_size=size)) for size in (4, 64)]

    assert [answer.peak_instant == "rollout" for answer in answers] == [True, False]
    rollouts = [_get_instants(answer)["rollout"] for answer in answers]
    assert rollouts[0] == rollouts[1]


@pytest.mark.parametrize("rollout", [None, Rollout(gpu_memory_fraction=0.3), _ASLEEP])
def test_components_sum_to_the_bytes_of_the_device(rollout: Rollout | None) -> None:
    """So do the parts of every instant to its own, and numbers alone are the same."""
    answer = _ask(_grpo(rollout))
    numbers = _ask(_grpo(rollout), detail=Detail.NUMBERS)

    assert sum(component.bytes for component in answer.components) == answer.device_bytes
    for instant in answer.instants:
        assert sum(instant.parts.values()) == instant.allocated_bytes, instant.name
    assert numbers.device_bytes == answer.device_bytes
    assert numbers.device_interval == answer.device_interval


def test_the_interval_of_a_phase_reaches_as_far_as_the_updates() -> None:
    """What is not sure to be smaller may yet be the larger one."""
    update = _ask(_grpo(None, micro_batch_size=40))
    answer = _ask(_grpo(_ASLEEP, micro_batch_size=40))

    assert answer.device_interval.high >= update.device_interval.high
    assert answer.device_interval.low <= answer.device_bytes <= answer.device_interval.high


def test_the_first_level_of_sleep_keeps_weights_on_the_host() -> None:
    """The second drops them; on the GPU both are the same."""
    first, second = (
        _ask(_grpo(replace(_ASLEEP, sleep_level=level), **_VERL), _FSDP) for level in (1, 2)
    )

    weights = next(part.bytes for part in first.components if part.name == "engine_weights")
    assert first.host_bytes_per_node - second.host_bytes_per_node == 4 * weights
    assert first.device_bytes == second.device_bytes


def test_states_that_are_moved_away_leave_room_for_the_rollout() -> None:
    """The update has them back, so that it is as large as before."""
    moved = replace(_ASLEEP, offload_parameters=True, offload_optimizer=True)
    kept, offloaded = _ask(_grpo(_ASLEEP)), _ask(_grpo(moved))

    before, after = _get_instants(kept), _get_instants(offloaded)
    states = sum(
        part.bytes
        for part in kept.components
        if part.name in {"weights", "optimizer_states", "master_weights"}
    )
    assert before["rollout"] - after["rollout"] == states
    assert before["backward"] == after["backward"]
    assert offloaded.host_bytes_per_node == states


def test_an_engine_of_its_own_process_has_its_own_context() -> None:
    """TRL's shares the trainer's."""
    shared, own = (_ask(_grpo(replace(_ASLEEP, own_process=own))) for own in (False, True))

    assert 256 * 2**20 < own.device_bytes - shared.device_bytes < GIB


def test_a_policys_own_generate_adds_its_cache_to_the_trained_weights() -> None:
    """The weights are there once."""
    own = Rollout(engine=RolloutEngine.TRANSFORMERS, num_sequences=32)
    answer = _ask(_grpo(own))
    replica = estimate(
        _MODEL,
        ServeWorkload(
            engine=Engine.TRANSFORMERS, num_sequences=32, prompt_tokens=512, output_tokens=512
        ),
        layout=Layout(),
        device=_H100,
    )

    served = sum(part.bytes for part in replica.components if part.name == "weights")
    steady = answer.steady_bytes
    assert _get_instants(answer)["rollout"] == steady + replica.allocated_bytes - served
    assert "weight_sync" not in _get_instants(answer)


def test_the_engines_interval_is_of_the_questions_level() -> None:
    """A rollout that decides has the interval that was asked for."""
    own = Rollout(engine=RolloutEngine.TRANSFORMERS, num_sequences=256)
    answers = [_ask(_grpo(own), level=level) for level in (0.5, 0.95)]

    assert [answer.peak_instant for answer in answers] == ["rollout", "rollout"]
    assert answers[0].device_interval.high < answers[1].device_interval.high


def test_sharded_weights_reach_the_engine_tensor_by_tensor() -> None:
    """With a bucket beside them, as verl sends them."""
    bucket = 2048 * 2**20
    plain, bucketed = (
        _get_instants(_ask(_grpo(replace(_ASLEEP, bucket_bytes=size), **_VERL), _FSDP))[
            "weight_sync"
        ]
        for size in (0, bucket)
    )

    assert bucketed - plain == bucket
    whole = _get_instants(_ask(_grpo(_ASLEEP)))
    assert plain < whole["weight_sync"]


def test_a_share_too_small_for_the_engines_weights_does_not_fit() -> None:
    """The engine would not start, however much is free."""
    answer = _ask(_grpo(Rollout(gpu_memory_fraction=0.02, sleep_level=2)))

    assert judge(answer, _H100).verdict is Verdict.DOES_NOT_FIT
    assert any("does not start" in warning for warning in answer.warnings)


def test_trls_loss_runs_over_fsdp2_and_no_other_sharded_weights() -> None:
    """Its head is gathered with the root; DeepSpeed's third stage gathers it by itself."""
    deepspeed = replace(_FSDP, sharding=Sharding.DEEPSPEED)

    assert _ask(_grpo(_ASLEEP), _FSDP).peak_instant == "rollout"
    with pytest.raises(EstimatorError, match="sharding fsdp2 of trainer grpo"):
        _ask(_grpo(_ASLEEP), deepspeed)


def test_more_sequences_in_a_forward_pass_alone() -> None:
    """They are scored in batches of their own."""
    few, many = (
        _get_instants(_ask(_grpo(None, log_prob_batch_size=size)))["log_probs"] for size in (4, 32)
    )

    assert many > few


def test_scores_come_from_the_kernels_of_the_questions_gpu() -> None:
    """CUDA looks for rows without a score in a boolean of the scores' size, other GPUs do not."""
    batch, heads, length = 4, _MODEL.spec.num_attention_heads, 1024
    workload = _grpo(None, precision="fp32", sequence_length=length)
    nvidia, other = (
        _get_instants(estimate(_MODEL, workload, layout=Layout(), device=device))["log_probs"]
        for device in (_H100, replace(_H100, name="MI300X", vendor="amd"))
    )

    assert nvidia - other == batch * heads * length**2


@pytest.mark.parametrize(
    ("changes", "layout", "words"),
    [
        ({"loss": Loss.CHUNKED}, Layout(), "flash_cross_entropy"),
        ({"rollout": Rollout(tensor_parallel=3)}, Layout(data_parallel=4), "does not divide"),
        (
            {
                "rollout": Rollout(engine=RolloutEngine.TRANSFORMERS),
                "loss": Loss.FLASH_CROSS_ENTROPY,
            },
            _FSDP,
            "over sharded weights",
        ),
        ({"framework": Framework.MEGATRON}, Layout(), "grpo"),
    ],
)
def test_what_has_no_term_is_refused_in_words(
    changes: dict[str, Any], layout: Layout, words: str
) -> None:
    """Each says what is not there, or what would be right."""
    with pytest.raises(EstimatorError, match=words):
        _ask(_grpo(**({"rollout": None} | changes)), layout)


@pytest.mark.parametrize(
    "changes", [{"engine_version": "0.1.0"}, {"weight_dtype": DType.FP8}, {"tensor_parallel": 3}]
)
def test_what_the_engine_refuses_is_said_of_the_rollouts_field(changes: dict[str, Any]) -> None:
    """The trainer's workload has no engine_version, and its layout may have no ranks at all."""
    with pytest.raises(EstimatorError) as caught:
        _ask(_grpo(Rollout(**changes)), Layout(data_parallel=6))

    assert caught.value.field == f"workload.rollout.{next(iter(changes))}"


def test_a_second_model_is_resident_in_the_rollout_too() -> None:
    """The reference stays where it is while the engine generates."""
    alone, beside = (
        _get_instants(_ask(_grpo(_ASLEEP, reference=reference)))
        for reference in (None, Reference.MODEL)
    )

    weights = 2 * _MODEL.parameter_counts().total
    assert beside["rollout"] - alone["rollout"] == weights + _MODEL.buffer_bytes


@pytest.mark.parametrize("rollout", [None, _ASLEEP])
def test_a_reference_on_the_host_takes_none_of_the_gpu(rollout: Rollout | None) -> None:
    """Its shards are the host's, one for each GPU of the node."""
    alone, beside = (
        _ask(_grpo(rollout, reference=reference, **_VERL), _FSDP)
        for reference in (None, Reference.OFFLOADED)
    )

    assert alone.steady_bytes == beside.steady_bytes
    host = beside.host_bytes_per_node - alone.host_bytes_per_node
    assert 0 <= host - 2 * _MODEL.parameter_counts().total <= 4 * 4096
