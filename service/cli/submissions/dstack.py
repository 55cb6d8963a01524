"""dstack: a run, known by its name."""

import json
from typing import Any

from service.cli.submissions.clients import (
    fill_variables,
    read_json,
    require_success,
    run_client,
)
from service.cli.submissions.journal import Entry, make_mark
from service.cli.submissions.scheduler import Sighting

_ENDED = frozenset(("terminated", "failed", "done"))
"""Statuses of runs that hold nothing any more (core/models/runs.py, ``finished_statuses``)."""


class Dstack:
    """Client of dstack, in its default project."""

    format = "dstack"

    def prepare(self, document: Any, submission_id: str) -> str:  # noqa: ANN401 - JSON
        """Return the configuration, named by the mark, with all variables."""
        pairs = [text.partition("=") for text in document["env"]]
        variables = fill_variables({name: value if sign else None for name, sign, value in pairs})
        return json.dumps(document | {"name": make_mark(submission_id), "env": variables})

    def submit(self, entry: Entry) -> str:
        """Apply the configuration.

        The same one is one run, as long as that lives.
        """
        command = ("dstack", "apply", "--yes", "--detach", "--file=-")
        require_success(("dstack apply",), run_client(command, entry.payload))
        return entry.mark

    def find(self, entry: Entry) -> Sighting:
        """Ask for the run by its name."""
        output = run_client(("dstack", "run", "get", entry.mark, "--json"))
        if output.code != 0 and f"Run {entry.mark} not found" in output.out + output.err:
            return Sighting(is_certain=True)
        run = read_json("dstack run get", require_success(("dstack run get",), output))
        return Sighting(job=entry.mark, is_alive=run["status"] not in _ENDED)
