"""The grammar of rules."""

import pytest

from service.estimator.rules.grammar.conditions import (
    Condition,
    Field,
    all_of,
    any_of,
    divides,
    divides_or_is_multiple_of,
    is_above,
    is_absent,
    is_at_most,
    is_false,
    is_given,
    is_in,
    is_multiple_of,
    is_not_in,
    is_same,
    is_true,
    satisfies,
    settle,
)
from service.estimator.rules.grammar.facts import Case, collect_facts
from service.estimator.rules.grammar.fields import layout, model, precision, workload
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Method, ServeWorkload, TrainWorkload
from tests.unit.planner.samples import model as catalogue_model

CASE = Case(
    collect_facts(catalogue_model("llama-3-8b")),
    TrainWorkload(sequence_length=4096),
    Layout(tensor_parallel=4, data_parallel=2),
)
TENSOR = layout.tensor_parallel


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        (is_in(workload.method, Method.FULL, Method.LORA), True),
        (is_not_in(workload.method, Method.FULL), False),
        (is_true(model.decoder), True),
        (is_false(model.decoder), False),
        (is_absent(workload.lora), True),
        (is_given(workload.lora), False),
        (is_above(TENSOR, 4), False),
        (is_at_most(TENSOR, 4), True),
        (divides(TENSOR, model.num_attention_heads), True),
        (divides((TENSOR, 3), model.num_attention_heads), False),
        (is_multiple_of(workload.sequence_length, (2, layout.data_parallel)), True),
        (divides_or_is_multiple_of((TENSOR, 4), model.num_key_value_heads), True),
        (divides_or_is_multiple_of((TENSOR, 3), model.num_key_value_heads), False),
        (is_same(precision.compute_dtype, precision.param_dtype), True),
        (any_of(is_true(model.tied), is_false(model.tied)), True),
        (all_of(is_true(model.tied), is_false(model.tied)), False),
        (satisfies(lambda case: case.layout.data_parallel == 2, layout.data_parallel), True),
    ],
)
def test_each_relation_compares_what_it_names(condition: Condition, *, holds: bool) -> None:
    """A condition holds of the case exactly when its relation does: llama 3 8B has 32 heads, 8 of
    keys and values.
    """
    assert condition.holds(CASE) is holds


def test_fields_are_known_on_both_sides_and_inside() -> None:
    """Every field that a condition reads is known, whichever side it is on."""
    joined = any_of(divides((TENSOR, 2), model.num_experts), is_true(workload.compile))

    assert joined.paths == {"layout.tensor_parallel", "model.num_experts", "workload.compile"}
    assert joined.field == "layout.tensor_parallel"


@pytest.mark.parametrize(
    ("condition", "settled"),
    [
        (is_true(model.decoder), True),
        (is_in(TENSOR, 4), None),
        (any_of(is_in(TENSOR, 3), is_true(model.decoder)), True),
        (any_of(is_in(TENSOR, 3), is_false(model.decoder)), None),
        (all_of(is_in(TENSOR, 3), is_false(model.decoder)), False),
        (all_of(is_in(TENSOR, 3), is_true(model.decoder)), None),
    ],
)
def test_a_condition_is_settled_once_what_is_open_cannot_change_it(
    condition: Condition, *, settled: bool | None
) -> None:
    """Where nobody knows the degree yet, the model alone may decide."""
    assert settle(condition, CASE, frozenset({"layout.tensor_parallel"})) is settled


@pytest.mark.parametrize(("asked", "longest"), [(None, 8192), (1024, 1024)])
def test_the_longest_sequence_is_asked_or_the_models(asked: int | None, longest: int) -> None:
    """Without a word an engine accepts as many tokens as the model has positions."""
    served = ServeWorkload(
        num_sequences=1, prompt_tokens=100, output_tokens=28, max_model_len=asked
    )
    case = Case(CASE.model, served, Layout())

    assert (case.tokens, case.longest) == (128, longest)


def test_a_field_is_its_dotted_name() -> None:
    """Two fields of one name are one."""
    assert Field("layout.tensor_parallel") == TENSOR
