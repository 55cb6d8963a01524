"""Source of an answer: this process, or a server.

Only one of the two is loaded. A server is asked where one is named, by ``--server`` or by
HEADROOM_URL.
"""

import argparse
import os
import sys
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from service.base.errors import InvalidRequestError, ServiceError, UnavailableError
from service.cli.gc_tuning import collect_rarely
from service.cli.schema_flags import translate_to_flags
from service.estimator.values.errors import EstimatorError

_VARIABLE = "HEADROOM_URL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Server at ``url``, or this process where there is none.

    ``named_by`` is the flag or variable that names the server.
    """

    url: str | None = None
    named_by: str = ""

    def describe(self) -> str:
        """Return who answered, in a line."""
        if self.url is None:
            return "answered offline: stored models, clusters and measurements are a server's"
        return f"answered by {self.url} ({self.named_by})"


def add_source(parser: argparse.ArgumentParser, knows: str) -> None:
    """Add the server that may answer, which also ``knows`` something."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--server",
        metavar="URL",
        help=f"ask this server, which knows its {knows} (default {_VARIABLE}; without it the "
        "answer is made here)",
    )
    group.add_argument(
        "--offline", action="store_true", help=f"answer here, whatever {_VARIABLE} says"
    )


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Add the cluster that a question is about."""
    parser.add_argument(
        "--cluster",
        metavar="NAME",
        help="a cluster of the server: what was measured on its GPUs comes before what such GPUs "
        "showed anywhere",
    )


def get_cluster(options: argparse.Namespace) -> dict[str, str]:
    """Return the member of a body that names the cluster, if any."""
    return {} if options.cluster is None else {"cluster": options.cluster}


def get_source(options: argparse.Namespace) -> Source:
    """Return who is to answer."""
    if options.server is not None:
        return Source(url=options.server, named_by="--server")
    url = None if options.offline else os.environ.get(_VARIABLE) or None
    return Source() if url is None else Source(url=url, named_by=_VARIABLE)


def answer_question(question: str, document: dict[str, Any], source: Source) -> dict[str, Any]:
    """Return the contract's answer to a question.

    ``question`` is ``fit``, ``how_many``, ``plan`` or ``ceiling``. Refusals name flags.
    """
    # A cold answer has no time for an HTTP client, nor a cold fit for the search; a client needs no
    # estimator.
    module = import_module(
        f"service.cli.offline.{question}" if source.url is None else "service.cli.remote"
    )
    try:
        with collect_rarely():
            result: dict[str, Any] = getattr(module, question)(document, source.url)
    except UnavailableError as error:
        hint = "; --offline answers here" if source.named_by == _VARIABLE else ""
        raise UnavailableError(error.detail + hint) from None
    except ServiceError as error:
        raise InvalidRequestError(translate_to_flags(error.detail)) from error
    except EstimatorError as error:
        field = f"{error.field}: " if error.field else ""
        raise InvalidRequestError(translate_to_flags(f"{field}{error.message}")) from error
    return result


def tell_source(source: Source, *, is_json: bool) -> None:
    """Print who answered, beside what programs read.

    Silent where a program gets what it gets without any setting.
    """
    if not is_json:
        sys.stdout.write(f"{source.describe()}\n")
    elif source.named_by == _VARIABLE:
        sys.stderr.write(f"headroom: {source.describe()}\n")
