"""Refusal of arguments that an action would ignore.

A flag that changes nothing would look like one that did.
"""

import argparse
from collections.abc import Collection

from service.base.errors import InvalidRequestError

_ALWAYS = frozenset({"action", "json", "offline", "server"})


def refuse_ignored(
    options: argparse.Namespace,
    command: str,
    *,
    takes: Collection[str] = (),
    takes_fields: bool = False,
) -> None:
    """Refuse the first argument that ``command`` does not take.

    Raises InvalidRequestError. ``takes`` are names as argparse keeps them; ``takes_fields`` says
    that every flag of workload and layout is taken too.
    """
    for dest, flag in options.provided.items():
        if dest not in _ALWAYS and dest not in takes and not (takes_fields and "." in dest):
            name = command.partition(" ")[0]
            message = (
                f"`headroom {command}` takes no {flag}; `headroom {name} --help` shows what is "
                "taken where"
            )
            raise InvalidRequestError(message)
