"""Answers from a server, which knows the models that were stored there and what was measured."""

from service.cli.http import Document, ask, connect, path_of


def fit(document: Document, server: str) -> Document:
    """Return the server's answer to a fit question."""
    with connect(server) as client:
        answer: Document = ask(client, "POST", path_of("fit"), body=document).json()
    return answer
