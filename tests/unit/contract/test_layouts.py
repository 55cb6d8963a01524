"""Layouts of requests as layouts of the estimator, and back."""

import msgspec
import pytest

from service.contract.schemas.layouts import LayoutRequest
from service.contract.to_answer.requests import render_layout
from service.contract.to_question.layouts import read_layout
from service.estimator.values.layout import Layout
from service.estimator.values.pipeline import PipelineSplit


def layout(**fields: object) -> tuple[Layout, tuple[str, ...]]:
    """Read a layout."""
    return read_layout(msgspec.convert(fields, LayoutRequest))


@pytest.mark.parametrize(
    ("fields", "name", "value"),
    [
        ({"virtual_pipeline_stages": 2}, "virtual_pipeline_stages", 2),
        ({"expert_tensor_parallel": 1, "tensor_parallel": 2}, "expert_tensor_parallel", 1),
        ({"shard_embeddings_separately": True}, "shard_embeddings_separately", True),
        ({"data_parallel": 8, "shard_size": 4}, "shard_size", 4),
        ({"host_memory_bytes": "1Ti"}, "host_memory_bytes", 2**40),
        (
            {"pipeline_parallel": 2, "pipeline_layers": [3, 2]},
            "pipeline_split",
            PipelineSplit(pipeline_layers=(3, 2)),
        ),
        (
            {"pipeline_parallel": 2, "pipeline_model_parallel_layout": "Et|t|t|tL"},
            "virtual_pipeline_stages",
            2,
        ),
        (
            {"pipeline_parallel": 4, "pipeline_schedule": "zbv_zero_bubble"},
            "virtual_pipeline_stages",
            2,
        ),
    ],
)
def test_every_layout_word_reaches_the_layout(
    fields: dict[str, object], name: str, value: object
) -> None:
    """Words about the layout that have a default of their own are read as they were said."""
    assert getattr(layout(**fields)[0], name) == value


def test_a_split_that_is_sent_back_is_the_same() -> None:
    """What a plan answers is a question again, in the words of the contract."""
    first, _ = layout(pipeline_parallel=2, num_layers_in_last_pipeline_stage=3)

    members = render_layout(first)

    assert members["num_layers_in_last_pipeline_stage"] == 3
    assert layout(**members)[0] == first


@pytest.mark.parametrize(
    "fields",
    [
        {"virtual_pipeline_stages": 1},
        {"expert_tensor_parallel": 1},
        {"tensor_parallel": 2, "expert_tensor_parallel": 2},
    ],
)
def test_layout_words_that_change_nothing_are_read(fields: dict[str, int]) -> None:
    """What says no more than its absence is no reason to refuse."""
    assert layout(**fields)[0] == Layout(tensor_parallel=fields.get("tensor_parallel", 1))
