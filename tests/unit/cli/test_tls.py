"""TLS of the server: the certificate of its time, renewed between two connections."""

import ssl
from pathlib import Path

import pytest
import uvicorn
from cryptography import x509
from cryptography.x509.oid import NameOID

from service.base.startup_errors import StartupError
from service.cli.serving.tls import check_tls, make_context
from tests.certificates import make_certificate


def write_pair(folder: Path, name: str) -> tuple[Path, Path]:
    """Write a certificate and its key as a renewal does: each replaced at once."""
    files = folder / "tls.crt", folder / "tls.key"
    for file, text in zip(files, make_certificate(name), strict=True):
        renewed = file.with_suffix(".new")
        renewed.write_text(text)
        renewed.replace(file)
    return files


def load(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return the context that uvicorn serves with."""
    config = uvicorn.Config(
        "nothing:at_all",
        ssl_certfile=certificate,
        ssl_keyfile=key,
        ssl_context_factory=make_context,
        log_config=None,
    )
    config.load_app = lambda: None  # type: ignore[method-assign]  # the certificate alone matters
    config.load()
    assert config.ssl is not None
    return config.ssl


def read_name(server: ssl.SSLContext, *, sends_name: bool = True) -> str:
    """Return the name in the certificate that a connection is shown, in memory."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    name = "headroom.example" if sends_name else None
    ours = client.wrap_bio(to_client, to_server, server_hostname=name)
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    waiting = [ours, theirs]
    while waiting:
        for side in list(waiting):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(side)
    shown = ours.getpeercert(binary_form=True)
    assert shown is not None
    subject = x509.load_der_x509_certificate(shown).subject
    return str(subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


@pytest.mark.parametrize("sends_name", [True, False], ids=["by name", "by address"])
def test_a_renewed_certificate_is_shown_to_the_next_connection(
    tmp_path: Path, *, sends_name: bool
) -> None:
    """Nothing is started anew, whether or not a client says whom it wants."""
    server = load(*write_pair(tmp_path, "first"))
    before = read_name(server, sends_name=sends_name)
    write_pair(tmp_path, "second")

    after = read_name(server, sends_name=sends_name)

    assert (before, after) == ("first", "second")


def test_half_a_renewal_changes_nothing(tmp_path: Path) -> None:
    """The certificate is there and its key is not: the earlier pair counts until both are."""
    certificate, key = write_pair(tmp_path, "first")
    server = load(certificate, key)
    earlier = key.read_text()
    write_pair(tmp_path, "second")
    later = key.read_text()
    key.write_text(earlier)
    half = read_name(server)
    key.unlink()
    gone = read_name(server)
    key.write_text(later)

    assert (half, gone, read_name(server)) == ("first", "first", "second")


def test_what_is_no_certificate_is_refused(tmp_path: Path) -> None:
    """Before anything listens."""
    certificate, key = write_pair(tmp_path, "first")
    check_tls(certificate, key)
    check_tls(None, None)
    with pytest.raises(StartupError, match="--tls-key is missing"):
        check_tls(certificate, None)
    with pytest.raises(StartupError, match="no certificate and its key"):
        check_tls(key, certificate)
    with pytest.raises(StartupError, match="No such file"):
        check_tls(tmp_path / "gone", key)
