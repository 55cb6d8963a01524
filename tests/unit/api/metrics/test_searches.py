"""Searches are counted with their layouts."""

from service.api.metrics.registry import Metrics
from service.api.resources import ceilings, plans
from service.usecases.operations.metrics_snapshot import NO_READING
from tests.unit.api.builders import parts, served


def counted(metrics: Metrics, name: str, question: str) -> float:
    """Return the value of a counter of one kind of question."""
    start = f'headroom_{name}_layouts_total{{question="{question}"}} '
    found = [
        line for line in metrics.render(NO_READING).decode().splitlines() if line.startswith(start)
    ]
    return float(found[0].removeprefix(start)) if found else 0.0


def test_searches_tell_how_much_they_looked_at() -> None:
    """A plan considers more layouts than it works out in full; a ceiling works all of its out."""
    with_parts = parts()
    with served(with_parts) as client:
        answers = [
            client.post("/v1/plans", json=plans.EXAMPLE),
            client.post("/v1/ceilings", json=ceilings.EXAMPLE),
        ]

    assert [answer.status_code for answer in answers] == [200, 200]
    assert (
        counted(with_parts.metrics, "searched", "plan")
        > counted(with_parts.metrics, "estimated", "plan")
        > 0
    )
    assert (
        counted(with_parts.metrics, "searched", "ceiling")
        == counted(with_parts.metrics, "estimated", "ceiling")
        > 0
    )
