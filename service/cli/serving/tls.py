"""Certificate of a server, read anew when it is renewed."""

import argparse
import ssl
from collections.abc import Callable
from pathlib import Path

import uvicorn

from service.base.startup_errors import StartupError
from service.runtime.logs import get_logger

_log = get_logger(__name__)

Stamp = tuple[tuple[int, int, int], ...]


def add_tls(parser: argparse.ArgumentParser) -> None:
    """Add a certificate and its key."""
    parser.add_argument(
        "--tls-cert",
        type=Path,
        metavar="FILE",
        help="speak TLS with this certificate and its chain, in PEM (default plain HTTP); a "
        "renewed one is taken up by the next connection",
    )
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="the certificate's key")


def check_tls(certificate: Path | None, key: Path | None) -> None:
    """Refuse a certificate that no server can show."""
    if (certificate is None) != (key is None):
        missing = "--tls-cert" if certificate is None else "--tls-key"
        message = f"{missing} is missing: a certificate and its key belong together"
        raise StartupError(message)
    if certificate is None or key is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        message = f"{certificate} and {key} are no certificate and its key: {error}"
        raise StartupError(message) from None


def make_context(
    config: uvicorn.Config, make_default: Callable[[], ssl.SSLContext]
) -> ssl.SSLContext:
    """Return uvicorn's context.

    It shows each connection the certificate of its time.
    """
    files = tuple(Path(file) for file in (config.ssl_certfile, config.ssl_keyfile) if file)
    context = make_default()
    context.sni_callback = _Renewal(make_default, files).choose
    return context


class _Renewal:
    """The context of the files when they last could be read."""

    def __init__(self, make: Callable[[], ssl.SSLContext], files: tuple[Path, ...]) -> None:
        self._make, self._files = make, files
        self._seen, self._context = self._read_stamp(), make()

    def choose(
        self,
        connection: ssl.SSLSocket | ssl.SSLObject,
        _name: str | None,
        _context: ssl.SSLContext,
    ) -> None:
        """Give a connection the certificate.

        OpenSSL calls it with and without a name.
        """
        try:
            stamp = self._read_stamp()
            if stamp != self._seen:
                self._context, self._seen = self._make(), stamp
                _log.info("tls.renewed", certificate=str(self._files[0]))
        except (OSError, ssl.SSLError) as error:
            # Between the writing of a certificate and of its key: the earlier pair still counts.
            _log.warning("tls.not_renewed", certificate=str(self._files[0]), reason=str(error))
        connection.context = self._context

    def _read_stamp(self) -> Stamp:
        stats = [file.stat() for file in self._files]
        return tuple((stat.st_mtime_ns, stat.st_ino, stat.st_size) for stat in stats)
