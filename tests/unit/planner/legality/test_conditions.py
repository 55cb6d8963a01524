"""The grammar of rules."""

from typing import Any

import pytest

from service.estimator.values.layout import Layout
from service.estimator.values.workload import ServeWorkload, TrainWorkload
from service.planner.legality.conditions import collect_paths, list_allowed_values, read_condition
from service.planner.legality.facts import Case, collect_facts
from tests.unit.planner.legality.samples import model

CASE = Case(
    collect_facts(model("llama-3-8b")),
    TrainWorkload(sequence_length=4096),
    Layout(tensor_parallel=4, data_parallel=2),
)


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ({"value": "workload.method", "is": ["full", "lora"]}, True),
        ({"value": "workload.method", "is_not": ["full"]}, False),
        ({"value": "layout.tensor_parallel", "above": 4}, False),
        ({"value": "layout.tensor_parallel", "at_most": 4}, True),
        ({"value": "layout.tensor_parallel", "divides": "model.num_attention_heads"}, True),
        ({"value": ["layout.tensor_parallel", 3], "divides": "model.num_attention_heads"}, False),
        ({"value": "workload.sequence_length", "multiple_of": [2, "layout.data_parallel"]}, True),
        (
            {
                "value": ["layout.tensor_parallel", 4],
                "divides_or_is_multiple_of": "model.num_key_value_heads",
            },
            True,
        ),
        (
            {
                "value": ["layout.tensor_parallel", 3],
                "divides_or_is_multiple_of": "model.num_key_value_heads",
            },
            False,
        ),
        (
            {
                "value": "workload.precision.compute_dtype",
                "same_as": "workload.precision.param_dtype",
            },
            True,
        ),
        (
            {
                "any": [
                    {"value": "model.tied", "is": [True]},
                    {"value": "model.tied", "is": [False]},
                ],
            },
            True,
        ),
        (
            {
                "all": [
                    {"value": "model.tied", "is": [True]},
                    {"value": "model.tied", "is": [False]},
                ],
            },
            False,
        ),
    ],
)
def test_each_relation_compares_what_it_names(condition: dict[str, Any], *, holds: bool) -> None:
    """A condition holds of the case exactly when its relation does: llama 3 8B has 32 heads, 8 of
    keys and values.
    """
    assert read_condition(condition)(CASE) is holds


def test_a_condition_with_no_relation_is_refused() -> None:
    """A misspelt relation is no condition that always holds."""
    with pytest.raises(ValueError, match="one relation"):
        read_condition({"value": "layout.tensor_parallel", "divide": "model.num_attention_heads"})


def test_paths_are_found_on_both_sides_and_inside() -> None:
    """Every name that a condition speaks of is known, whichever side it is on."""
    joined = {
        "any": [
            {"value": ["layout.a", 2], "divides": "model.b"},
            {"value": "workload.c", "is": ["d"]},
        ],
    }

    assert collect_paths(joined) == {"layout.a", "model.b", "workload.c"}


def test_allowed_values_leave_the_other_factors_as_they_are() -> None:
    """Stages of 32 layers interleaved twice may be 1, 2, 4, 8 or 16."""
    case = Case(CASE.model, CASE.workload, Layout(pipeline_parallel=3, virtual_pipeline_stages=2))
    condition = {
        "value": ["layout.pipeline_parallel", "layout.virtual_pipeline_stages"],
        "divides": "model.num_hidden_layers",
    }

    assert list_allowed_values(condition, "layout.pipeline_parallel", case) == (1, 2, 4, 8, 16)


def test_words_are_allowed_as_the_table_lists_them() -> None:
    """A list of words is what is allowed of its own field, and of no other."""
    condition = {"value": "workload.method", "is": ["full"]}

    assert list_allowed_values(condition, "workload.method", CASE) == ("full",)
    assert list_allowed_values(condition, "layout.tensor_parallel", CASE) == ()


@pytest.mark.parametrize(("asked", "longest"), [(None, 8192), (1024, 1024)])
def test_the_longest_sequence_is_asked_or_the_models(asked: int | None, longest: int) -> None:
    """Without a word an engine accepts as many tokens as the model has positions."""
    workload = ServeWorkload(
        num_sequences=1, prompt_tokens=100, output_tokens=28, max_model_len=asked
    )
    case = Case(CASE.model, workload, Layout())

    assert (case.tokens, case.longest) == (128, longest)
