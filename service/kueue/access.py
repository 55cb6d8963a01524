"""Ways to Kubernetes' API: a pod's account, or a kubeconfig."""

import base64
import binascii
import os
import ssl
import tempfile
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import yaml

from service.kueue.api import TIMEOUT_S, Json
from service.kueue.errors import KubeConfigError

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Folder in which Kubernetes puts the token, authority and namespace of a pod's account."""
_HOST, _PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Address of an API server, and credentials for it.

    ``token_file`` is read for each request: Kubernetes renews it.
    """

    server: str
    tls: ssl.SSLContext | bool = True
    namespace: str = "default"
    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None

    def connect(self) -> httpx.AsyncClient:
        """Return a client; the caller closes it."""
        auth = None if self.token is None and self.token_file is None else _Bearer(self)
        return httpx.AsyncClient(
            base_url=self.server,
            verify=self.tls,
            auth=auth,
            timeout=TIMEOUT_S,
            trust_env=False,
            headers={"accept": "application/json", "user-agent": "headroom-kueue"},
        )


class _Bearer(httpx.Auth):
    """The token of an account."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Add the token to a request."""
        file = self._access.token_file
        token = self._access.token if file is None else file.read_text().strip()
        request.headers["authorization"] = f"Bearer {token}"
        yield request


def find_access(
    environ: Mapping[str, str],
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    account: Path = ACCOUNT,
) -> Access:
    """Return the way to the API server.

    A kubeconfig that is named, else the pod's account, else the kubeconfig of KUBECONFIG or
    ``~/.kube/config``. Raises KubeConfigError where there is none.
    """
    if kubeconfig is None and context is None and environ.get(_HOST):
        return _read_account(environ, account)
    path = kubeconfig or environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    if os.pathsep in path:
        message = f"KUBECONFIG names several files ({path}); name one with --kubeconfig"
        raise KubeConfigError(message)
    try:
        config = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no YAML"
        message = (
            f"cannot read the kubeconfig {path}: {reason}; in a pod the service account is used, "
            "elsewhere --kubeconfig, KUBECONFIG or ~/.kube/config"
        )
        raise KubeConfigError(message) from None
    return _read_kubeconfig(config, Path(path), context)


def _read_account(environ: Mapping[str, str], account: Path) -> Access:
    host, port = environ[_HOST], environ.get(_PORT, "443")
    try:
        tls = ssl.create_default_context(cafile=str(account / "ca.crt"))
        namespace = (account / "namespace").read_text(encoding="utf-8").strip()
        # What each request needs: a pod without it is told when it starts.
        (account / "token").read_text(encoding="utf-8")
    except (OSError, ssl.SSLError) as error:
        message = (
            f"this pod has no account of the cluster in {account} ({error}); set "
            "automountServiceAccountToken: true"
        )
        raise KubeConfigError(message) from None
    return Access(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        tls=tls,
        namespace=namespace,
        token_file=account / "token",
    )


def _read_kubeconfig(config: object, path: Path, context: str | None) -> Access:
    document: Json = config if isinstance(config, dict) else {}
    name = context or document.get("current-context")
    if not name:
        message = f"{path} has no current-context; name one with --context"
        raise KubeConfigError(message)
    chosen = _find_named(document, "contexts", "context", str(name), path)
    cluster = _find_named(document, "clusters", "cluster", str(chosen.get("cluster")), path)
    user: Json = (
        _find_named(document, "users", "user", str(chosen["user"]), path)
        if chosen.get("user")
        else {}
    )
    for word in ("exec", "auth-provider", "username"):
        if word in user:
            message = (
                f"the user of {name} in {path} is known by {word!r}, which is not read; make a "
                "token (`kubectl create token ACCOUNT`) and put it there as token"
            )
            raise KubeConfigError(message)
    if "server" not in cluster:
        message = f"the cluster of {name} in {path} has no server"
        raise KubeConfigError(message)
    token_file = user.get("tokenFile")
    return Access(
        server=str(cluster["server"]),
        tls=_make_tls(cluster, user, path),
        namespace=str(chosen.get("namespace") or "default"),
        token=user.get("token"),
        token_file=None if token_file is None else path.parent / str(token_file),
    )


def _find_named(document: Json, group: str, word: str, name: str, path: Path) -> Json:
    for entry in document.get(group) or []:
        if entry.get("name") == name:
            value: Json = entry.get(word) or {}
            return value
    message = f"{path} has no {word} {name!r}"
    raise KubeConfigError(message)


def _make_tls(cluster: Json, user: Json, path: Path) -> ssl.SSLContext | bool:
    try:
        authority = _read_part(cluster, "certificate-authority", path)
        tls = ssl.create_default_context(cadata=None if authority is None else authority.decode())
        if cluster.get("insecure-skip-tls-verify") is True:
            tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        certificate = _read_part(user, "client-certificate", path)
        key = _read_part(user, "client-key", path)
        if certificate is not None and key is not None:
            # The library reads files alone; nobody else may read this one, and it is gone at once.
            with tempfile.NamedTemporaryFile() as file:
                file.write(certificate + b"\n" + key)
                file.flush()
                tls.load_cert_chain(file.name)
    except (OSError, ssl.SSLError, UnicodeDecodeError, binascii.Error) as error:
        message = f"the certificates of {path} cannot be used: {error}"
        raise KubeConfigError(message) from None
    return tls


def _read_part(section: Json, name: str, path: Path) -> bytes | None:
    """Return a file that a section holds or names."""
    if f"{name}-data" in section:
        return base64.b64decode(section[f"{name}-data"], validate=True)
    return (path.parent / str(section[name])).read_bytes() if name in section else None
