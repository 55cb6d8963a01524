"""A port for schedulers: their hooks, whether it lives, what it counted, and nothing else."""

from typing import Any

import anyio
import httpx
import pytest

from service.app import create_app
from service.runtime.settings import Settings
from tests.unit.api.builders import NOWHERE
from tests.unit.kueue.fakes import a_job

REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {"uid": "u", "operation": "CREATE", "object": {"kind": "Job", **a_job()}},
}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/v1/hooks/kubernetes/warn", 200),
        ("GET", "/healthz", 200),
        ("POST", "/v1/fit", 404),
        ("GET", "/v1/keys", 404),
        ("POST", "/mcp", 404),
        ("GET", "/", 404),
    ],
)
def test_a_port_of_hooks_serves_hooks_alone(method: str, path: str, status: int) -> None:
    """Whoever reaches it without a key learns what hooks say, and changes nothing."""
    app: Any = create_app(Settings(database_url=NOWHERE, access="open", only_hooks=True))

    async def main() -> int:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://hooks") as client:
            body = REVIEW if method == "POST" else None
            return (await client.request(method, path, json=body)).status_code

    assert anyio.run(main) == status
