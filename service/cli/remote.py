"""Answers from a server.

It knows the models that were stored there and what was measured.
"""

from service.cli.http import Document, ask, build_path, connect
from service.cli.model_files.json_files import read_bounded_file
from service.contract.schemas.explain.limits import MAX_EXPLAIN_BYTES


def fit(document: Document, server: str) -> Document:
    """Return the server's answer to a fit question."""
    with connect(server) as client:
        answer: Document = ask(client, "POST", build_path("fit"), body=document).json()
    return answer


def generate(document: Document, server: str) -> Document:
    """Return the server's answer to a question about a pipeline."""
    with connect(server) as client:
        path = build_path("pipelines", "fit")
        answer: Document = ask(client, "POST", path, body=document).json()
    return answer


def how_many(document: Document, server: str) -> Document:
    """Return the server's answer to a how-many question."""
    with connect(server) as client:
        answer: Document = ask(client, "POST", build_path("how-many"), body=document).json()
    return answer


def ceiling(document: Document, server: str) -> Document:
    """Return the server's answer to a ceilings question."""
    with connect(server) as client:
        answer: Document = ask(client, "POST", build_path("ceilings"), body=document).json()
    return answer


def explain(document: Document, server: str) -> Document:
    """Return the server's explanation of a file."""
    body = {name: value for name, value in document.items() if name != "file"}
    with connect(server) as client:
        body |= read_bounded_file(document["file"], MAX_EXPLAIN_BYTES)
        answer: Document = ask(client, "POST", build_path("explain"), body=body).json()
    return answer


def plan(document: Document, server: str) -> Document:
    """Return the server's answer to a plans question."""
    with connect(server) as client:
        answer: Document = ask(client, "POST", build_path("plans"), body=document).json()
    return answer


def rendering(document: Document, server: str) -> Document:
    """Return a job in a format, as the server renders it."""
    body = {name: value for name, value in document.items() if name != "format"}
    with connect(server) as client:
        path = build_path("formats", document["format"])
        answer: Document = ask(client, "POST", path, body=body).json()
    return answer


def launch(document: Document, server: str) -> Document:
    """Return the server's reading of a launch."""
    with connect(server) as client:
        path = build_path("launches", "import")
        answer: Document = ask(client, "POST", path, body=document).json()
    return answer
