"""Communicators are counted, not GPUs."""

import pytest

from service.estimator.layout import Layout
from service.estimator.parallel.communicators import communicators_of


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        (Layout(), {}),
        (Layout(data_parallel=512), {"data": 512}),
        (Layout(tensor_parallel=8), {"tensor": 8}),
        (Layout(tensor_parallel=8, pipeline_parallel=4), {"tensor": 8, "pipeline": 4, "world": 32}),
        (Layout(data_parallel=2, context_parallel=2), {"data": 4, "context": 2}),
    ],
)
def test_each_group_of_more_than_one_rank_has_one(layout: Layout, expected: dict[str, int]) -> None:
    """Five hundred ranks of plain data parallelism have one; tensor and pipeline ranks have two and one of all."""
    assert {group.purpose: group.ranks for group in communicators_of(layout)} == expected


def test_experts_have_groups_of_their_own() -> None:
    """Experts on four of eight ranks: a group that exchanges tokens, and a group that holds the same experts."""
    layout = Layout(data_parallel=8, expert_parallel=4)

    groups = {group.purpose: group.ranks for group in communicators_of(layout, has_experts=True)}

    assert groups == {"data": 8, "expert": 4, "expert data": 2}
