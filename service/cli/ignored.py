"""What an action would ignore is refused: a word that changes nothing looks like one that did."""

import argparse
from collections.abc import Collection

from service.base.errors import InvalidRequestError

_ALWAYS = frozenset({"action", "json", "server"})


def refuse_ignored(options: argparse.Namespace, command: str, *, takes: Collection[str] = (), words: bool = False) -> None:
    """Raise InvalidRequestError for the first thing that was said beside what ``command`` takes.

    ``takes`` are names as argparse keeps them; ``words`` says that every word of the work and its layout is taken too.
    """
    for dest, spelt in options.said.items():
        if dest not in _ALWAYS and dest not in takes and not (words and "." in dest):
            name = command.partition(" ")[0]
            message = f"`headroom {command}` takes no {spelt}; `headroom {name} --help` shows what is taken where"
            raise InvalidRequestError(message)
