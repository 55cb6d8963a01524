"""Splits of pipelines, as the frameworks' own code makes them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.catalog.models import load_architecture, resolve_model
from service.estimator.model.pipelines.chunks import Chunk
from service.estimator.model.pipelines.deepspeed import partition_balanced, partition_uniform
from service.estimator.model.pipelines.megatron import spread_layers
from service.estimator.model.pipelines.split import split_layers, split_model
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.pipeline import PipelineSplit


def a_pipeline(stages: int, virtual: int = 1, **split: Any) -> Layout:  # noqa: ANN401 - each field has its own type
    """Return a pipeline of one tensor and data rank."""
    return Layout(
        pipeline_parallel=stages,
        virtual_pipeline_stages=virtual,
        pipeline_split=PipelineSplit(**split),
    )


def count(chunks: tuple[Chunk, ...]) -> tuple[int, ...]:
    """Return the layers of each chunk."""
    return tuple(chunk.num_layers for chunk in chunks)


@pytest.mark.parametrize(
    ("layers", "pipeline", "expected"),
    [
        (61, a_pipeline(16, num_layers_in_last_pipeline_stage=1), (4,) * 15 + (1,)),
        (61, a_pipeline(4, num_layers_in_first_pipeline_stage=16), (16, 15, 15, 15)),
        (
            94,
            a_pipeline(
                16,
                account_for_embedding_in_pipeline_split=True,
                account_for_loss_in_pipeline_split=True,
            ),
            (5, *(6,) * 14, 5),
        ),
        (30, a_pipeline(4, 2, account_for_loss_in_pipeline_split=False), None),
        (31, a_pipeline(4, 2, account_for_loss_in_pipeline_split=True), (4,) * 7 + (3,)),
        (61, a_pipeline(8, 4, pipeline_model_parallel_layout="Et|(tt|)*30mL"), (1, *(2,) * 30, 0)),
        (61, a_pipeline(4, pipeline_layers=(16, 16, 16, 13)), (16, 16, 16, 13)),
        (61, a_pipeline(16, pipeline_parallel_layers_per_stage=4), (3, *(4,) * 14, 2)),
        (94, a_pipeline(8, 2, pipeline_parallel_first_stage_less_layers=0), (6,) * 15 + (4,)),
    ],
)
def test_layers_are_spread_as_the_framework_spreads_them(
    layers: int, pipeline: Layout, expected: tuple[int, ...] | None
) -> None:
    """DeepSeek-V3 and Qwen3-235B-A22B as Megatron-Bridge's recipes and torchtitan split them."""
    if expected is None:
        with pytest.raises(InvalidInputError):
            split_layers(pipeline, layers)
        return

    chunks = split_layers(pipeline, layers)

    assert count(chunks) == expected
    assert chunks[0].has_embedding
    assert chunks[-1].has_loss


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("uniform", (3, 5, *(4,) * 13, 1)),
        ("type:transformer", (*(4,) * 13, 3, 3, 3)),
        ("parameters", (6, *(4,) * 10, *(3,) * 5)),
    ],
)
def test_deepspeeds_methods_count_embedding_and_head_as_it_does(
    method: str, expected: tuple[int, ...]
) -> None:
    """61 layers behind two of Megatron-DeepSpeed's own and before three."""
    model = load_architecture(resolve_model("deepseek-v3"))

    assert count(split_model(model, a_pipeline(16, partition_method=method))) == expected


@pytest.mark.parametrize(
    ("weights", "parts", "bounds"),
    [
        ((0, 9, 4, 4, 4, 4, 4, 0, 9, 0), 4, (0, 2, 5, 8, 10)),
        ((0, 1, 1, 1, 1, 1, 1, 0, 0), 3, (0, 3, 5, 9)),
        ((5, 1, 1, 1, 1, 5), 3, (0, 1, 5, 6)),
        ((1, 2, 3, 4, 5, 6, 7), 3, (0, 4, 6, 7)),
        ((0, 0, 1, 1, 1, 1, 1, 0, 0, 0), 4, (0, 4, 5, 6, 10)),
        ((3, 3, 3, 3, 3, 3, 3), 5, (0, 2, 4, 5, 6, 7)),
    ],
)
def test_balanced_parts_are_deepspeeds_own(
    weights: tuple[int, ...], parts: int, bounds: tuple[int, ...]
) -> None:
    """What ``deepspeed.runtime.utils.partition_balanced`` returned for these weights."""
    assert partition_balanced(weights, parts) == bounds


@given(layers=st.integers(1, 130), chunks=st.integers(1, 64))
def test_an_uneven_split_differs_by_one_layer(layers: int, chunks: int) -> None:
    """Nothing is lost, and the last chunk, which has the head, has no more than any other."""
    counts = spread_layers(layers, chunks)

    assert sum(counts) == layers
    assert max(counts) - min(counts) <= 1
    assert counts[-1] == min(counts)
    assert partition_uniform(layers, chunks)[-1] == layers


@pytest.mark.parametrize(
    ("pipeline", "field", "words"),
    [
        (a_pipeline(16), "layout.pipeline_parallel", "say pipeline_layers [3, 3, 4,"),
        (a_pipeline(4, pipeline_layers=(16, 16, 16, 16)), "layout.pipeline_layers", "= 64 layers"),
        (
            a_pipeline(4, num_layers_in_first_pipeline_stage=2),
            "layout.num_layers_in_first_pipeline_stage",
            "leave 59 of 61",
        ),
        (
            a_pipeline(4, account_for_loss_in_pipeline_split=True),
            "layout.account_for_loss_in_pipeline_split",
            "are 62",
        ),
        (
            a_pipeline(4, pipeline_model_parallel_layout="Ett|tt"),
            "layout.pipeline_model_parallel_layout",
            "has 2 chunks",
        ),
        (
            a_pipeline(4, pipeline_model_parallel_layout="Et*61|x|L|"),
            "layout.pipeline_model_parallel_layout",
            "x in the layout",
        ),
        (
            a_pipeline(2, pipeline_model_parallel_layout="Et*60|L"),
            "layout.pipeline_model_parallel_layout",
            "has 60 layers t, but the model has 61",
        ),
        (
            a_pipeline(2, pipeline_model_parallel_layout="Et*30m|t*31L"),
            "layout.pipeline_model_parallel_layout",
            "before the multi-token prediction",
        ),
        (
            a_pipeline(2, pipeline_model_parallel_layout="t*61|EL"),
            "layout.pipeline_model_parallel_layout",
            "begins with the embedding",
        ),
        (
            a_pipeline(4, partition_method="type:conv"),
            "layout.partition_method",
            "names none of the layers",
        ),
        (
            a_pipeline(16, pipeline_parallel_layers_per_stage=5),
            "layout.pipeline_parallel_layers_per_stage",
            "make 13 chunks",
        ),
        (
            a_pipeline(32, pipeline_parallel_last_stage_less_layers=4),
            "layout.pipeline_parallel_last_stage_less_layers",
            "have 2 places each",
        ),
    ],
)
def test_a_split_that_cannot_be_is_refused_with_its_numbers(
    pipeline: Layout, field: str, words: str
) -> None:
    """Who says it reads which word is wrong, and by how much."""
    with pytest.raises(InvalidInputError, match=words.replace("[", r"\[")) as refused:
        split_model(load_architecture(resolve_model("deepseek-v3")), pipeline)

    assert refused.value.field == field


def test_two_ways_to_split_are_one_too_many() -> None:
    """Megatron-LM refuses them together as well."""
    with pytest.raises(InvalidInputError, match="different ways to split"):
        PipelineSplit(pipeline_layers=(1, 2), account_for_loss_in_pipeline_split=True)
    with pytest.raises(InvalidInputError, match="pipeline_parallel is 1"):
        a_pipeline(1, pipeline_layers=(61,))
    with pytest.raises(InvalidInputError, match="has 3 numbers"):
        a_pipeline(4, pipeline_layers=(20, 20, 21))


@pytest.mark.parametrize("text", ["E(t*999)*999|L", "Et*99999999999|L", f"Et*{'9' * 5000}|L"])
def test_a_layout_is_not_written_out_beyond_what_is_read(text: str) -> None:
    """A few characters ask for as much memory as there is."""
    with pytest.raises(InvalidInputError, match="more than 16384 letters"):
        split_layers(a_pipeline(2, pipeline_model_parallel_layout=text), 61)


def test_more_chunks_than_layers_are_refused_without_a_split() -> None:
    """No list of four billion numbers is made to say that they do not divide."""
    with pytest.raises(InvalidInputError, match="does not divide 61") as refused:
        split_layers(a_pipeline(2**16, 2**16), 61)

    assert "pipeline_layers" not in refused.value.message
