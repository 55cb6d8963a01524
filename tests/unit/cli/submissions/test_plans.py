"""The question of a plan, by which what its job uses is joined to it."""

from typing import Any

import pytest

from service.cli.submissions.plans import read_question

BEST: dict[str, Any] = {
    "gpu": "A100-SXM4-80GB",
    "layout": {"data_parallel": 2},
    "workload": {"task": "train", "sequence_length": 640},
    "fit": {},
}


@pytest.mark.parametrize(
    ("fit", "cluster"),
    [({}, {}), ({"cluster": {"name": "lab", "quantities": []}}, {"cluster": "lab"})],
)
def test_a_plan_on_a_cluster_is_a_question_about_it(
    fit: dict[str, Any], cluster: dict[str, str]
) -> None:
    """So the nodes' measurements are the cluster's; a plan of before names none."""
    question = read_question({"model": "qwen3-0.6b", "candidates": [BEST | {"fit": fit}]})

    assert question == {
        "model": "qwen3-0.6b",
        "gpu": "A100-SXM4-80GB",
        "layout": {"data_parallel": 2},
        "workload": {"task": "train", "sequence_length": 640},
        **cluster,
    }
