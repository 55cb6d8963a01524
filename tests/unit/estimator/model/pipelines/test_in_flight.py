"""Micro-batches in flight, counted pass by pass."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.estimator.model.pipelines.in_flight import find_moments, list_moments
from service.estimator.model.pipelines.passes import Pass, PassKind
from service.estimator.model.pipelines.schedules import list_passes
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.pipeline import ONE_CHUNK, V_SHAPED, PipelineSchedule

SCHEDULES = st.sampled_from(PipelineSchedule)


def count_pass_by_pass(passes: tuple[Pass, ...], chunks: int) -> dict[tuple[int, ...], None]:
    """Return what is kept during each pass: micro-batches begun and not ended, by chunk."""
    seen: dict[tuple[int, ...], None] = {}
    for index in range(len(passes)):
        begun = {each[1:] for each in passes[: index + 1] if each.kind is PassKind.FORWARD}
        over = {PassKind.BACKWARD, PassKind.WEIGHT}
        ended = {each[1:] for each in passes[:index] if each.kind in over}
        seen[tuple(sum(c == chunk for c, _ in begun - ended) for chunk in range(chunks))] = None
    return seen


@given(
    schedule=SCHEDULES,
    stages=st.integers(2, 5),
    chunks=st.integers(2, 3),
    rounds=st.integers(2, 6),
    data=st.data(),
)
def test_no_pass_keeps_more_than_a_moment_says(
    schedule: PipelineSchedule, stages: int, chunks: int, rounds: int, data: st.DataObject
) -> None:
    """Every pass of a whole step is under one of the few moments, and each moment is one of them:
    counted over all its micro-batches, though moments look at a few rounds.
    """
    chunks = 1 if schedule in ONE_CHUNK else 2 if schedule in V_SHAPED else chunks
    stage = data.draw(st.integers(0, stages - 1))
    layout = Layout(
        pipeline_parallel=stages, virtual_pipeline_stages=chunks, pipeline_schedule=schedule
    )
    passes = list_passes(schedule, stages, chunks, stage, stages * rounds)

    kept = count_pass_by_pass(passes, chunks)
    moments = {moment.counts for moment in list_moments(layout, stage, stages * rounds)}

    assert all(any(_is_at_least(moment, each) for moment in moments) for each in kept)
    assert moments <= set(kept)


def _is_at_least(more: tuple[int, ...], fewer: tuple[int, ...]) -> bool:
    return all(left >= right for left, right in zip(more, fewer, strict=True))


@given(
    schedule=SCHEDULES,
    stages=st.integers(1, 6),
    chunks=st.integers(1, 4),
    stage=st.integers(0, 5),
    micro_batches=st.integers(1, 30),
)
def test_every_micro_batch_goes_through_every_chunk_once(
    schedule: PipelineSchedule, stages: int, chunks: int, stage: int, micro_batches: int
) -> None:
    """Forward before backward, and inputs before weights, whatever the numbers."""
    chunks = 1 if schedule in ONE_CHUNK else 2 if schedule in V_SHAPED else chunks
    if schedule is PipelineSchedule.DUAL_PIPE_V:
        micro_batches += 2 * stages
    micro_batches -= micro_batches % max(1, micro_batches // stages)
    passes = list_passes(schedule, stages, chunks, stage % stages, micro_batches)

    place = {each: index for index, each in enumerate(passes)}
    each_once = [(c, m) for c in range(chunks) for m in range(micro_batches)]
    assert len(place) == len(passes)
    for chunk, index in each_once:
        forward = place[Pass(PassKind.FORWARD, chunk, index)]
        whole = place.get(Pass(PassKind.BACKWARD, chunk, index))
        inputs, weights = (Pass(k, chunk, index) for k in (PassKind.INPUT, PassKind.WEIGHT))
        if whole is None:
            assert forward < place[inputs] < place[weights]
        else:
            assert forward < whole
            assert not {inputs, weights} & set(place)


@pytest.mark.parametrize(
    ("schedule", "virtual", "stage", "expected"),
    [
        (PipelineSchedule.ONE_F_ONE_B, 1, 0, (4,)),
        (PipelineSchedule.GPIPE, 1, 3, (16,)),
        (PipelineSchedule.INTERLEAVED, 3, 3, (4, 4, 1)),
        (PipelineSchedule.LOOPED_BFS, 2, 0, (16, 16)),
        (PipelineSchedule.INTERLEAVED_ZERO_BUBBLE, 2, 3, (4, 4)),
        (PipelineSchedule.ZBV, 2, 0, (7, 1)),
        (PipelineSchedule.DUAL_PIPE_V, 2, 3, (5, 4)),
    ],
)
def test_known_schedules_keep_as_many_as_they_are_known_for(
    schedule: PipelineSchedule, virtual: int, stage: int, expected: tuple[int, ...]
) -> None:
    """Of four stages and sixteen micro-batches; ZBV keeps two times the stages, as 1F1B does in
    its two halves (arXiv:2401.10241, section 6).
    """
    layout = Layout(
        pipeline_parallel=4, virtual_pipeline_stages=virtual, pipeline_schedule=schedule
    )

    moments = list_moments(layout, stage, 16)
    assert max((moment.counts for moment in moments), key=sum) == expected


def test_a_moment_that_another_exceeds_is_left_out() -> None:
    """Two forwards and their backwards have one moment of each kind."""
    passes = tuple(
        Pass(kind, 0, index) for kind in (PassKind.FORWARD, PassKind.BACKWARD) for index in (0, 1)
    )

    assert [(kind, kept) for kind, _, kept, _ in find_moments(passes, 1)] == [
        (PassKind.FORWARD, (2,)),
        (PassKind.BACKWARD, (2,)),
    ]


def test_a_schedule_has_its_own_chunks() -> None:
    """What has one chunk a stage, two, or several is refused with another number."""
    for schedule, virtual in (
        (PipelineSchedule.ONE_F_ONE_B, 2),
        (PipelineSchedule.ZBV, 3),
        (PipelineSchedule.INTERLEAVED, 1),
    ):
        with pytest.raises(InvalidInputError, match="has virtual_pipeline_stages"):
            Layout(pipeline_parallel=4, virtual_pipeline_stages=virtual, pipeline_schedule=schedule)


def test_breadth_first_of_many_micro_batches_is_not_walked_through() -> None:
    """Each chunk's last forward and first backward keep all micro-batches of it and before it."""
    layout = Layout(
        pipeline_parallel=4,
        virtual_pipeline_stages=2,
        pipeline_schedule=PipelineSchedule.LOOPED_BFS,
    )
    steps = 65_536

    assert {moment.counts for moment in list_moments(layout, 1, steps)} == {
        (steps, 0),
        (steps, steps),
    }
