"""Answers from a server, which knows the models that were stored there and what was measured."""

from service.base.errors import InvalidRequestError
from service.cli.http import Document, ask, connect, path_of, read
from service.client.flat import flat


def fit(document: Document, server: str) -> Document:
    """Return the server's answer to a fit question."""
    with connect(server) as client:
        answer: Document = ask(client, "POST", path_of("fit"), body=document).json()
    return answer


def how_many(document: Document, server: str) -> Document:
    """Return the server's answer to a how-many question, asked by query parameters."""
    try:
        query = flat(document)
    except ValueError as error:
        raise InvalidRequestError(str(error)) from None
    with connect(server) as client:
        return read(client, path_of("how-many"), **query)


def ceiling(document: Document, server: str) -> Document:
    """Return the server's answer to a ceilings question."""
    with connect(server) as client:
        answer: Document = ask(client, "POST", path_of("ceilings"), body=document).json()
    return answer


def plan(document: Document, server: str) -> Document:
    """Return the server's answer to a plans question."""
    with connect(server) as client:
        answer: Document = ask(client, "POST", path_of("plans"), body=document).json()
    return answer
