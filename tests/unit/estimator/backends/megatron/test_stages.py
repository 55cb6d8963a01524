"""Pipeline stages: their layers, their micro-batches in flight, the worst of them."""

import pytest

from service.catalog.models import list_supported_models, load_architecture, resolve_model
from service.estimator.backends.megatron.parameters import count_stage_parameters
from service.estimator.backends.megatron.shape import build_rank_shape
from service.estimator.backends.megatron.stages import list_stage_chunks, merge_chunks
from service.estimator.model.pipelines.in_flight import list_moments
from service.estimator.rules.tables.training.megatron import FAMILIES
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout
from tests.unit.estimator.backends.megatron.builders import a_gpt3, a_megatron_layout, answered


def count_in_flight(layout: Layout, stage: int, micro_batches: int) -> tuple[int, ...]:
    """Return the micro-batches of each chunk that are kept at once, at their highest number."""
    moments = list_moments(layout, stage, micro_batches)
    return max((moment.counts for moment in moments), key=sum)


@pytest.mark.parametrize(("stage", "expected"), [(0, 4), (1, 3), (3, 1)])
def test_one_forward_one_backward_keeps_as_many_as_stages_are_left(
    stage: int, expected: int
) -> None:
    """``min(p - i, m)`` micro-batches (schedules.py)."""
    layout = a_megatron_layout(pipeline_parallel=4)

    assert count_in_flight(layout, stage, 8) == (expected,)
    assert count_in_flight(layout, stage, 1) == (1,)


def test_interleaved_stages_keep_chunks_of_many_micro_batches() -> None:
    """Four stages of three chunks: nine forwards of chunks run on the last stage before its first
    backward is done.
    """
    layout = a_megatron_layout(pipeline_parallel=4, virtual_pipeline_stages=3)

    assert count_in_flight(layout, 3, 8) == (4, 4, 1)
    assert sum(count_in_flight(layout, 0, 8)) == 2 * 3 + 2 * 4 + 1


def test_chunks_alternate_between_stages() -> None:
    """The first chunk of the first stage has the embedding, the last chunk of the last one the
    head.
    """
    layout = a_megatron_layout(pipeline_parallel=2, virtual_pipeline_stages=2)

    first, last = (list_stage_chunks(a_gpt3(), layout)[stage][1] for stage in (0, 1))

    assert [(chunk.dense, chunk.first, chunk.last) for chunk in first] == [
        (3, True, False),
        (3, False, False),
    ]
    assert [(chunk.dense, chunk.first, chunk.last) for chunk in last] == [
        (3, False, False),
        (3, False, True),
    ]


def test_the_worst_stage_decides() -> None:
    """The first stage keeps four micro-batches; the answer is its, and all stages are in it."""
    answer = answered(
        a_gpt3(vocab_size=1024),
        layout={"pipeline_parallel": 4, "data_parallel": 2},
        gradient_accumulation_steps=8,
    )

    peaks = [stage.allocated_bytes for stage in answer.stages]
    assert answer.worst_pipeline_stage == 0
    assert answer.allocated_bytes == peaks[0] == max(peaks)
    assert len(peaks) == 4


def test_every_catalogue_model_is_counted_as_its_own_tree_does() -> None:
    """One rank holds what the model has, and the rows that pad its vocabulary."""
    layout, wrong = a_megatron_layout(), []
    for name in list_supported_models():
        model = load_architecture(resolve_model(name))
        # Another head than a language model's is refused there.
        if model.family in FAMILIES and not model.spec.head:
            shape = build_rank_shape(model, layout)
            held = count_stage_parameters(
                shape, merge_chunks(list_stage_chunks(model, layout)[0][1])
            ).total
            padding = (
                (shape.vocabulary - model.vocab_size)
                * model.spec.hidden_size
                * (1 if model.tied else 2)
            )
            wrong += [name] * (held - padding != model.counts.total)

    assert wrong == []


def test_a_pipeline_without_micro_batches_is_warned_of() -> None:
    """Four stages with one micro-batch have three waiting."""
    answer = answered(layout={"pipeline_parallel": 4})

    assert any("3 of them wait" in warning for warning in answer.warnings)


@pytest.mark.parametrize(
    ("layout", "field"),
    [
        ({"pipeline_parallel": 16}, "layout.pipeline_parallel"),
        ({"pipeline_parallel": 5}, "layout.pipeline_parallel"),
        ({"virtual_pipeline_stages": 2}, "layout.virtual_pipeline_stages"),
        ({"pipeline_parallel": 2, "virtual_pipeline_stages": 5}, "layout.virtual_pipeline_stages"),
        ({"tensor_parallel": 3}, "layout.tensor_parallel"),
        ({"data_parallel": 2, "expert_parallel": 2}, "layout.expert_parallel"),
        ({"context_parallel": 3}, "workload.sequence_length"),
    ],
)
def test_ranks_that_cannot_share_the_model_are_refused(layout: dict[str, int], field: str) -> None:
    """Layers, heads, experts and sequences divide over their ranks, or the job does not start."""
    with pytest.raises(InvalidInputError) as refused:
        answered(layout=layout)

    assert refused.value.field == field
