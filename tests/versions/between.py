"""Proxy before a server that keeps what was asked and answered."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

Exchange = dict[str, Any]
_OF_CONNECTION = frozenset({"connection", "content-length", "transfer-encoding", "host", "date"})


@contextmanager
def keep_exchanges(port: int) -> Iterator[tuple[str, list[Exchange]]]:
    """Yield the address of a proxy before a local server, and the list of its exchanges."""
    kept: list[Exchange] = []

    class Handler(BaseHTTPRequestHandler):
        """Hands a request on, and its answer back."""

        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Write nothing."""

        def hand_on(self) -> None:
            """Ask the server."""
            content = self.rfile.read(int(self.headers.get("content-length", "0")))
            headers = _keep(self.headers.items())
            url = f"http://127.0.0.1:{port}{self.path}"
            answer = httpx.request(
                self.command, url, headers=headers, content=content, timeout=300, trust_env=False
            )
            kept.append(
                {
                    "method": self.command,
                    "path": self.path,
                    "body": _read(content),
                    "status": answer.status_code,
                    "headers": {
                        name: answer.headers[name]
                        for name in ("content-type", "etag", "location")
                        if name in answer.headers
                    },
                    "answer": _read(answer.content),
                }
            )
            self.send_response(answer.status_code)
            for name, value in _keep(answer.headers.items()).items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = hand_on  # noqa: N815 - http.server's names

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", kept
        server.shutdown()
        thread.join()


def _keep(headers: Any) -> dict[str, str]:  # noqa: ANN401 - pairs of either library
    return {
        name: value
        for name, value in headers
        if name.lower() not in _OF_CONNECTION | {"accept-encoding", "content-encoding"}
    }


def _read(content: bytes) -> object:
    try:
        return json.loads(content) if content else None
    except ValueError:
        return content.decode(errors="replace")
