"""What a scheduler's client sends to Headroom, noted on its way and compared with a sample."""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_PATIENCE_S = 60.0


@contextmanager
def record(url: str) -> Iterator[tuple[str, list[Any]]]:
    """Yield an address that passes on to ``url`` what it is sent, and the JSON bodies so far."""
    bodies: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        """One that notes and passes on."""

        def do_POST(self) -> None:
            """Pass a body on, and the answer back."""
            body = self.rfile.read(int(self.headers["Content-Length"]))
            bodies.append(json.loads(body))
            headers = {"Content-Type": "application/json"}
            request = urllib.request.Request(f"{url}{self.path}", body, headers)  # noqa: S310 - our own address
            try:
                with urllib.request.urlopen(request, timeout=_PATIENCE_S) as answer:  # noqa: S310 - as above
                    status, text = answer.status, answer.read()
            except urllib.error.HTTPError as error:
                status, text = error.code, error.read()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_words: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", bodies
        finally:
            server.shutdown()


def compare_shapes(sent: Any, sample: Any, path: str = "body") -> Iterator[str]:  # noqa: ANN401 - JSON
    """Yield where a sample has other members or types than what is sent; null is of any type."""
    if sent is None or sample is None:
        return
    if isinstance(sent, dict) and isinstance(sample, dict):
        for name in sorted(sent.keys() - sample.keys()):
            yield f"{path}.{name} is sent, and not in the sample"
        for name in sorted(sample.keys() - sent.keys()):
            yield f"{path}.{name} is in the sample, and not sent"
        for name in sent.keys() & sample.keys():
            yield from compare_shapes(sent[name], sample[name], f"{path}.{name}")
    elif isinstance(sent, list) and isinstance(sample, list):
        for one, other in zip(sent, sample, strict=False):
            yield from compare_shapes(one, other, f"{path}[]")
    elif type(sent) is not type(sample):
        yield f"{path} is {sent!r}, and {sample!r} in the sample"
