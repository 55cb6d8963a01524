"""What holds for every question, whatever its numbers."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.estimator.cache import PlanCache
from service.estimator.estimate import estimate
from service.estimator.memory.setup import resolve_setup
from service.estimator.memory.states import compute_train_states
from service.estimator.model.architecture import Architecture
from service.estimator.model.trees.decoder import build_decoder
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.workload import Checkpointing, ServeWorkload, TrainWorkload
from tests.builders import a_device, a_sharded_layout
from tests.unit.estimator.strategies import models, questions, servings, trainings


def _ask(
    model: Architecture, workload: TrainWorkload | ServeWorkload, layout: Layout | None = None
) -> Estimate:
    return estimate(model, workload, layout=layout or Layout(), device=a_device())


def _phases(answer: Estimate) -> Mapping[str, int]:
    return {phase.name: phase.allocated_bytes for phase in answer.phases}


@given(questions())
def test_components_add_up_to_the_device(
    question: tuple[Architecture, TrainWorkload, Layout],
) -> None:
    """Components are a partition of ``device_bytes``: nothing is left over, nothing is counted
    twice, nothing is negative.
    """
    answer = _ask(*question)

    assert sum(component.bytes for component in answer.components) == answer.device_bytes
    assert all(component.bytes > 0 for component in answer.components)
    assert len({component.name for component in answer.components}) == len(answer.components)


@given(servings())
def test_components_of_serving_add_up_to_the_device(
    question: tuple[Architecture, ServeWorkload],
) -> None:
    """The same for a replica."""
    answer = _ask(*question)

    assert sum(component.bytes for component in answer.components) == answer.device_bytes


@given(questions())
def test_the_peak_is_the_highest_instant(
    question: tuple[Architecture, TrainWorkload, Layout],
) -> None:
    """The answer is a maximum over instants, never their sum, and nothing rests higher than the
    peak.
    """
    answer = _ask(*question)

    by_name = {instant.name: instant.allocated_bytes for instant in answer.instants}
    assert answer.allocated_bytes == max(by_name.values()) == by_name[answer.peak_instant]
    assert answer.steady_bytes <= answer.allocated_bytes
    assert answer.allocated_bytes <= answer.reserved_bytes <= answer.device_bytes


@given(questions())
def test_every_quantity_lies_in_its_interval(
    question: tuple[Architecture, TrainWorkload, Layout],
) -> None:
    """An interval that its own point is outside of would be worth nothing."""
    answer = _ask(*question)

    for point, bounds in (
        (answer.allocated_bytes, answer.allocated_interval),
        (answer.reserved_bytes, answer.reserved_interval),
        (answer.device_bytes, answer.device_interval),
    ):
        assert bounds.low <= point <= bounds.high


@given(questions())
def test_an_instant_is_part_of_its_phase(
    question: tuple[Architecture, TrainWorkload, Layout],
) -> None:
    """Phases count the loss in both passes: forward's is at least the forward instant, backward's
    at least the backward one.
    """
    answer = _ask(*question)

    by_name = {instant.name: instant.allocated_bytes for instant in answer.instants}
    phases = _phases(answer)
    assert phases["forward_pass"] >= by_name["forward"]
    assert phases["backward_pass"] >= by_name["backward"]
    assert max(phases["forward_pass"], phases["backward_pass"]) >= by_name["loss"]
    assert phases["optimizer_step"] == by_name["optimizer_step"]


@given(questions(), st.sampled_from(["micro_batch_size", "sequence_length"]), st.integers(1, 100))
def test_more_tokens_never_need_less(
    question: tuple[Architecture, TrainWorkload, Layout], field: str, more: int
) -> None:
    """Every instant is non-decreasing in batch and in sequence."""
    model, workload, layout = question
    larger = replace(workload, **{field: getattr(workload, field) + more})

    for small, large in zip(
        _ask(*question).instants, _ask(model, larger, layout).instants, strict=True
    ):
        assert small.allocated_bytes <= large.allocated_bytes


@given(models(), st.data())
def test_activations_are_linear_in_the_batch(model: Architecture, data: st.DataObject) -> None:
    """Once there are so many sequences that one moment decides, each further one costs the same."""
    workload = data.draw(trainings(model))

    low, middle, high = (
        _ask(model, replace(workload, micro_batch_size=batch))
        for batch in (10**9, 2 * 10**9, 3 * 10**9)
    )

    for first, second, third in zip(low.instants, middle.instants, high.instants, strict=True):
        assert (
            third.allocated_bytes - second.allocated_bytes
            == second.allocated_bytes - first.allocated_bytes
        )


@given(models(), st.data())
def test_checkpointing_never_needs_more(model: Architecture, data: st.DataObject) -> None:
    """Keeping a block's arguments and computing it again needs at most the arguments more than
    keeping everything.

    The arguments are the block's input (of which a norm in fp32 keeps a copy of its own, so that
    the input itself could go), the positions and, for eager attention, the mask. They show where
    backward ends, in the first block, with few tokens.
    """
    workload = data.draw(trainings(model, adapters=False))
    kept = _ask(model, replace(workload, activation_checkpointing=Checkpointing.NONE))
    recomputed = _ask(model, replace(workload, activation_checkpointing=Checkpointing.FULL))

    tokens = workload.micro_batch_size * workload.sequence_length
    arguments = (
        4 * tokens * (model.spec.hidden_size + workload.sequence_length)
        + 8 * workload.sequence_length
    )
    assert recomputed.allocated_bytes <= kept.allocated_bytes + arguments


@given(models(), st.data(), st.sampled_from([1, 2, 3]))
def test_more_shards_never_need_more_states(
    model: Architecture, data: st.DataObject, stage: int
) -> None:
    """States of a rank are non-increasing in the number of ranks."""
    workload = data.draw(trainings(model))

    resident = [
        compute_train_states(
            resolve_setup(model, workload, a_sharded_layout(ranks, stage=stage))
        ).resident
        for ranks in (1, 2, 3, 8, 64)
    ]

    assert resident == sorted(resident, reverse=True)


@given(models(), st.data(), st.integers(1, 100))
def test_shards_add_up_to_the_whole(model: Architecture, data: st.DataObject, ranks: int) -> None:
    """All shards together hold the whole, and at most the padding of an element per rank for each
    tensor list.
    """
    workload = data.draw(trainings(model))
    whole = compute_train_states(resolve_setup(model, workload, Layout()))
    shard = compute_train_states(resolve_setup(model, workload, a_sharded_layout(ranks)))

    for name in ("weights", "adapters", "master_weights", "gradients", "persistent_main_gradients"):
        assert 0 <= getattr(shard, name) * ranks - getattr(whole, name) < 2 * 4 * ranks


@given(models(), st.data())
def test_later_stages_never_need_more_states(model: Architecture, data: st.DataObject) -> None:
    """Each ZeRO stage spreads what the one before it spreads, and one part more."""
    workload = data.draw(trainings(model))

    states = [
        compute_train_states(resolve_setup(model, workload, a_sharded_layout(8, stage=stage)))
        for stage in range(4)
    ]

    totals = [each.resident + each.gradients + each.step_main_gradients for each in states]
    assert totals == sorted(totals, reverse=True)


@given(questions())
def test_a_cached_recording_gives_the_same_answer(
    question: tuple[Architecture, TrainWorkload, Layout],
) -> None:
    """An answer does not depend on what was asked before."""
    model, workload, layout = question
    plans = PlanCache()
    other = replace(workload, micro_batch_size=workload.micro_batch_size + 1)
    estimate(model, other, layout=layout, device=a_device(), plans=plans)

    cached = estimate(model, workload, layout=layout, device=a_device(), plans=plans)

    assert cached == _ask(*question)


@given(servings(), st.integers(1, 50))
def test_more_sequences_never_need_less(
    question: tuple[Architecture, ServeWorkload], more: int
) -> None:
    """Cache and activations grow with the number of sequences."""
    model, workload = question
    larger = replace(workload, num_sequences=workload.num_sequences + more)

    assert _ask(model, workload).allocated_bytes <= _ask(model, larger).allocated_bytes


@pytest.mark.parametrize("checkpointing", [Checkpointing.NONE, Checkpointing.FULL])
@given(model=models(), data=st.data())
def test_depth_adds_the_same_each_time(
    checkpointing: Checkpointing, model: Architecture, data: st.DataObject
) -> None:
    """From the second layer on, each layer adds the same bytes to every phase: what slices are
    extrapolated by.
    """
    workload = replace(data.draw(trainings(model)), activation_checkpointing=checkpointing)

    deep = build_decoder(replace(model.spec, num_hidden_layers=10**6 + 3))
    answers = [_phases(_ask(deep.with_layers(10**6 + more), workload)) for more in range(4)]

    for name in answers[0]:
        steps = {later[name] - earlier[name] for earlier, later in pairwise(answers)}
        assert len(steps) == 1
