"""dstack: a run, known by its name."""

import json
from collections.abc import Mapping
from typing import Any

from service.cli.submissions.clients import (
    fill_variables,
    read_json,
    require_success,
    run_client,
)
from service.cli.submissions.journal import Entry
from service.cli.submissions.scheduler import Sighting

_ENDED = frozenset(("terminated", "failed", "done"))
"""Statuses of runs that hold nothing any more (core/models/runs.py, ``finished_statuses``)."""


class Dstack:
    """Client of dstack, in the project that was its default."""

    format = "dstack"

    def locate(self) -> Mapping[str, str]:
        """Return the project.

        It is a variable's or the default of a file. All commands read the variable; ``--project``
        has another place in each.
        """
        command = ("dstack", "ps", "--last=1", "--json")
        runs = read_json("dstack ps", require_success(("dstack ps",), run_client(command)))
        return {"DSTACK_PROJECT": str(runs["project"])}

    def prepare(self, document: Any, entry: Entry) -> str:  # noqa: ANN401 - JSON
        """Return the configuration, named by the mark, with all variables."""
        pairs = [text.partition("=") for text in document["env"]]
        variables = {name: value if sign else None for name, sign, value in pairs}
        env = fill_variables(variables, entry.digest)
        return json.dumps(document | {"name": entry.mark, "env": env})

    def submit(self, entry: Entry) -> str:
        """Apply the configuration.

        The same one is one run, as long as that lives.
        """
        command = ("dstack", "apply", "--yes", "--detach", "--file=-")
        require_success(("dstack apply",), run_client(command, entry.payload, entry.target))
        return entry.mark

    def find(self, entry: Entry) -> Sighting:
        """Ask for the run by its name."""
        command = ("dstack", "run", "get", entry.mark, "--json")
        output = run_client(command, variables=entry.target)
        if output.code != 0 and f"Run {entry.mark} not found" in output.out + output.err:
            return Sighting(is_certain=True)
        run = read_json("dstack run get", require_success(("dstack run get",), output))
        return Sighting(job=entry.mark, is_alive=run["status"] not in _ENDED)
