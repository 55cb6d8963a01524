"""Ways to the API server: a pod's account, a kubeconfig, and what is refused in words."""

import base64
import ssl
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
import yaml

from service.kueue.access import Access, find_access
from service.kueue.errors import KubeConfigError
from tests.certificates import make_certificate


def encode(text: str) -> str:
    """Return a text as a kubeconfig holds it."""
    return base64.b64encode(text.encode()).decode()


def write_config(folder: Path, **user: str) -> dict[str, Any]:
    """Write a kubeconfig of one cluster; return the environment that names it."""
    certificate, _ = make_certificate()
    (folder / "ca.crt").write_text(certificate)
    cluster = {"server": "https://api.example:6443", "certificate-authority": "ca.crt"}
    config = {
        "current-context": "main",
        "contexts": [
            {"name": "main", "context": {"cluster": "c", "user": "u", "namespace": "ops"}}
        ],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }
    (folder / "config").write_text(yaml.safe_dump(config))
    return {"KUBECONFIG": str(folder / "config")}


def read_header(access: Access) -> str | None:
    """Return the Authorization that a request to the API carries."""
    sent: list[httpx.Request] = []

    def serve(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(200)

    async def main() -> None:
        async with access.connect() as client:
            # The transport alone is another: what is sent is what a cluster would see.
            client._transport = httpx.MockTransport(serve)  # noqa: SLF001
            await client.get("/apis")

    anyio.run(main)
    header: str | None = sent[0].headers.get("authorization")
    return header


def test_a_pod_uses_its_account(tmp_path: Path) -> None:
    """Its token is read for each request: Kubernetes renews it."""
    certificate, _ = make_certificate()
    (tmp_path / "ca.crt").write_text(certificate)
    (tmp_path / "namespace").write_text("capacity\n")
    (tmp_path / "token").write_text("first\n")
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}

    access = find_access(environ, account=tmp_path)
    (tmp_path / "token").write_text("second\n")

    assert (access.server, access.namespace) == ("https://[fd00::1]:443", "capacity")
    assert read_header(access) == "Bearer second"


def test_a_kubeconfig_with_a_token_is_read(tmp_path: Path) -> None:
    """Paths in it are beside it; who trusts nobody else's authority is checked by name."""
    access = find_access(write_config(tmp_path, token="secret-word"))  # noqa: S106 - made up

    assert (access.server, access.namespace) == ("https://api.example:6443", "ops")
    assert isinstance(access.tls, ssl.SSLContext)
    assert access.tls.check_hostname
    assert access.tls.cert_store_stats()["x509"] == 1
    assert read_header(access) == "Bearer secret-word"
    assert "secret-word" not in repr(access)


def test_a_kubeconfig_with_a_certificate_is_read(tmp_path: Path) -> None:
    """As kind and kubeadm write it; no token is sent."""
    certificate, key = make_certificate()
    parts = {"client-certificate-data": encode(certificate), "client-key-data": encode(key)}

    access = find_access(write_config(tmp_path, **parts))

    assert read_header(access) is None


@pytest.mark.parametrize(
    ("user", "why"),
    [
        ({"exec": "gke-auth"}, "kubectl create token"),
        ({"client-certificate-data": "?", "client-key-data": "?"}, "certificates"),
        ({"client-certificate": "gone.crt", "client-key": "gone.key"}, "certificates"),
    ],
)
def test_what_cannot_be_used_is_refused(tmp_path: Path, user: dict[str, str], why: str) -> None:
    """With what would be right."""
    with pytest.raises(KubeConfigError, match=why):
        find_access(write_config(tmp_path, **user))


@pytest.mark.parametrize(
    ("text", "context", "why"),
    [
        (None, None, "cannot read the kubeconfig"),
        ("a: [", None, "it is no YAML"),
        ("{}", None, "no current-context"),
        ("contexts: []", "other", "has no context 'other'"),
    ],
)
def test_a_kubeconfig_that_says_nothing_is_refused(
    tmp_path: Path, text: str | None, context: str | None, why: str
) -> None:
    """With its path."""
    path = tmp_path / "config"
    if text is not None:
        path.write_text(text)

    with pytest.raises(KubeConfigError, match=why):
        find_access({}, kubeconfig=str(path), context=context)


def test_a_pod_without_an_account_is_told(tmp_path: Path) -> None:
    """The chart of another may leave it out."""
    with pytest.raises(KubeConfigError, match="automountServiceAccountToken"):
        find_access({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, account=tmp_path)


def test_several_files_are_not_merged() -> None:
    """As kubectl does; one is enough here."""
    with pytest.raises(KubeConfigError, match="several files"):
        find_access({"KUBECONFIG": "a:b"})
