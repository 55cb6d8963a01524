"""POST /v1/clusters/{name}/reservations before a database is asked: what a request must say."""

from typing import Any

import pytest

from tests.unit.api.builders import served

GPUS = [{"pool": "a100", "node": "n1", "num_gpus": 4}]


@pytest.mark.parametrize(
    ("said", "field", "told"),
    [
        ({"gpus": GPUS}, "expires_in_s", "say expires_in_s or expires_at"),
        (
            {"gpus": GPUS, "expires_in_s": 60, "expires_at": "2030-01-01T00:00:00Z"},
            "expires_in_s",
            "say expires_in_s or expires_at, and not both",
        ),
        ({"expires_in_s": 60}, "gpus", "say gpus or placement"),
    ],
)
def test_one_of_two_words_is_said(said: dict[str, Any], field: str, told: str) -> None:
    """None and both are refused with the names of the two."""
    with served() as client:
        answer = client.post(
            "/v1/clusters/prod-a/reservations", json={"holder": "team-vision", **said}
        )

    assert answer.status_code == 422
    assert answer.json()["errors"] == [{"field": field, "message": told}]
