"""A real Kubernetes API server for custom resources, built from Debian's packages.

The API server of apiextensions is part of every kube-apiserver: the schemas, validation,
conflicts, server-side apply and watches are Kubernetes' own. It serves no pods and no jobs.
"""

import ipaddress
import os
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_PACKAGES = "golang-go,golang-k8s-apiextensions-apiserver-dev,etcd-server"
_BINARY = "usr/local/bin/apiextensions-apiserver"
_BUILD = (
    "env GOROOT=/usr/lib/go GOPATH=/usr/share/gocode GOCACHE=/var/cache/go-build HOME=/root "
    "GO111MODULE=off CGO_ENABLED=0 PATH=/usr/bin go build"
)
_ADMISSION = (
    "NamespaceLifecycle,MutatingAdmissionWebhook,ValidatingAdmissionWebhook,"
    "MutatingAdmissionPolicy,ValidatingAdmissionPolicy"
)
"""Plugins that ask for core resources, which this server has none of."""
_PATIENCE_S = 90.0
_POLL_S = 0.2
_LOOPBACK = ipaddress.ip_address("127.0.0.1")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServer:
    """A running server: its address, and a kubeconfig of an administrator."""

    url: str
    tls: ssl.SSLContext
    kubeconfig: Path

    def connect(self) -> httpx.Client:
        """Return a client; the caller closes it."""
        return httpx.Client(base_url=self.url, verify=self.tls, timeout=180.0, trust_env=False)


def build_root(root: Path) -> None:
    """Make a chroot with Debian's etcd and Go, and the API server in it, unless they are there."""
    if not os.path.lexists(root / "usr/bin/etcd"):
        command = ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", "sid", str(root)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    if not (root / _BINARY).exists():
        build = ["-o", f"/{_BINARY}", "k8s.io/apiextensions-apiserver"]
        subprocess.run(
            ["/usr/bin/nice", "/usr/sbin/chroot", str(root), *_BUILD.split(), *build], check=True
        )


@contextmanager
def start_server(root: Path, folder: Path) -> Iterator[ApiServer]:
    """Yield a server with an empty store below ``folder``; both processes end with it."""
    _write_certificates(folder)
    store_port, peer_port, port = _find_ports(3)
    store, url = f"http://127.0.0.1:{store_port}", f"https://127.0.0.1:{port}"
    kubeconfig = _write_kubeconfig(folder, url)
    with ExitStack() as stack:
        stack.enter_context(_start_store(root, store, f"http://127.0.0.1:{peer_port}", folder))
        flags = [
            f"--etcd-servers={store}",
            f"--secure-port={port}",
            "--bind-address=127.0.0.1",
            f"--tls-cert-file={folder / 'server.crt'}",
            f"--tls-private-key-file={folder / 'server.key'}",
            f"--client-ca-file={folder / 'ca.crt'}",
            "--authentication-skip-lookup",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            f"--kubeconfig={kubeconfig}",
            "--enable-priority-and-fairness=false",
            f"--disable-admission-plugins={_ADMISSION}",
        ]
        command = [str(root / _BINARY), *flags]
        stack.enter_context(_start(command, folder / "apiserver.log"))
        tls = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        tls.load_cert_chain(folder / "admin.crt", folder / "admin.key")
        server = ApiServer(url=url, tls=tls, kubeconfig=kubeconfig)
        _wait_until_ready(server, folder / "apiserver.log")
        yield server


@contextmanager
def _start_store(root: Path, url: str, peer: str, folder: Path) -> Iterator[None]:
    inside = Path("/tmp") / f"headroom-{os.getpid()}"  # noqa: S108 - of the chroot, removed below
    command = [
        "/usr/sbin/chroot",
        str(root),
        "/usr/bin/etcd",
        f"--data-dir={inside}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
    ]
    try:
        with _start(command, folder / "etcd.log"):
            yield
    finally:
        subprocess.run(["/bin/rm", "-rf", str(root / inside.relative_to("/"))], check=False)


@contextmanager
def _start(command: list[str], log: Path) -> Iterator[None]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        try:
            yield
        finally:
            process.terminate()
            process.wait()


def _wait_until_ready(server: ApiServer, log: Path) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    with server.connect() as client:
        while time.monotonic() < deadline:
            try:
                # Of Services, which this server has none of, its informer would wait for ever.
                if client.get("/readyz", params={"exclude": "informer-sync"}).is_success:
                    return
            except httpx.HTTPError:
                pass
            time.sleep(_POLL_S)
    message = f"the API server is not ready within {_PATIENCE_S:.0f} s: see {log}"
    raise TimeoutError(message)


def _find_ports(number: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _write_kubeconfig(folder: Path, url: str) -> Path:
    path = folder / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "contexts": [{"name": "main", "context": {"cluster": "main", "user": "admin"}}],
        "clusters": [
            {"name": "main", "cluster": {"server": url, "certificate-authority": "ca.crt"}}
        ],
        "users": [
            {
                "name": "admin",
                "user": {"client-certificate": "admin.crt", "client-key": "admin.key"},
            }
        ],
    }
    path.write_text(yaml.safe_dump(config))
    return path


def _write_certificates(folder: Path) -> None:
    """Write an authority, the server's certificate, and that of a member of system:masters."""
    authority = _make_key()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "headroom tests")])
    _write(folder / "ca", _sign(name, authority, name, authority, is_authority=True), authority)
    for file, words in (
        ("server", {NameOID.COMMON_NAME: "127.0.0.1"}),
        ("admin", {NameOID.COMMON_NAME: "admin", NameOID.ORGANIZATION_NAME: "system:masters"}),
    ):
        key = _make_key()
        subject = x509.Name([x509.NameAttribute(oid, word) for oid, word in words.items()])
        _write(folder / file, _sign(subject, key, name, authority, is_authority=False), key)


def _make_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _sign(
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Name,
    authority: ec.EllipticCurvePrivateKey,
    *,
    is_authority: bool,
) -> x509.Certificate:
    begin = datetime.now(UTC)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(_LOOPBACK)])
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin - timedelta(minutes=5))
        .not_valid_after(begin + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(names, critical=False)
        .sign(authority, hashes.SHA256())
    )


def _write(path: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    pem = serialization.Encoding.PEM
    path.with_suffix(".crt").write_bytes(certificate.public_bytes(pem))
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.with_suffix(".key").write_bytes(private)
