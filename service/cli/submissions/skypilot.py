"""SkyPilot: a managed job, known by its name."""

import json
import os
import re
import tempfile
from collections.abc import Mapping
from typing import Any

from service.base.errors import InvalidRequestError
from service.cli.submissions.clients import (
    Output,
    fill_variables,
    read_json,
    require_success,
    run_client,
)
from service.cli.submissions.errors import SchedulerError
from service.cli.submissions.journal import Entry
from service.cli.submissions.scheduler import Sighting

_ENDED = ("SUCCEEDED", "CANCELLED", "FAILED")
"""How states of jobs that hold nothing begin (sky/jobs/state.py, ``ManagedJobStatus``)."""
_STOPPED = "No in-progress managed jobs"
"""What is said where no controller of jobs runs (sky/utils/controller_utils.py)."""
_SERVER = "SKYPILOT_API_SERVER_ENDPOINT"
_JSON = "--output=json"
_ROWS = re.compile(r"^\[(\]|$)", re.MULTILINE)


class SkyPilot:
    """Client of SkyPilot's managed jobs."""

    format = "skypilot"

    def locate(self) -> Mapping[str, str]:
        """Return the server that a variable names.

        Any other is that of ``sky api login``.
        """
        return {_SERVER: os.environ[_SERVER]} if os.environ.get(_SERVER) else {}

    def prepare(self, document: Any, entry: Entry) -> str:  # noqa: ANN401 - JSON
        """Return the task with the variables that are of this environment.

        Raises InvalidRequestError for a service.
        """
        if "service" in document:
            message = (
                "these replicas are a service of SkyServe, and no job: write what --format skypilot"
                " prints to a file, for `sky serve up`"
            )
            raise InvalidRequestError(message)
        variables = fill_variables(document.get("envs", {}), entry.digest)
        return json.dumps(document | ({"envs": variables} if variables else {}))

    def submit(self, entry: Entry) -> str:
        """Launch the job, under the mark as its name."""
        with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as task:
            task.write(entry.payload)
            task.flush()
            command = ("sky", "jobs", "launch", f"--name={entry.mark}", "--yes", "--detach-run")
            output = run_client((*command, task.name), variables=entry.target)
            require_success(("sky jobs launch",), output)
        seen = self.find(entry)
        if seen.job is None:
            message = "sky jobs launch left no job of this name in sky jobs queue"
            raise SchedulerError(message)
        return seen.job

    def find(self, entry: Entry) -> Sighting:
        """Look for the job by its name.

        A launch that SkyPilot's server still works on may become the job; a controller that has
        stopped may have had it.
        """
        was_sent = entry.sent_at is not None
        may_come = was_sent and _is_launching(entry)
        command = ("sky", "jobs", "queue", "--all", _JSON)
        output = run_client(command, variables=entry.target)
        if output.code != 0 and _STOPPED in output.out + output.err:
            return Sighting(is_certain=not was_sent)
        rows = [
            row for row in _read_rows("sky jobs queue", output) if row["job_name"] == entry.mark
        ]
        live = [row for row in rows if not str(row["status"]).startswith(_ENDED)]
        if not rows:
            return Sighting(is_certain=not may_come)
        return Sighting(job=str((live or rows)[0]["job_id"]), is_alive=bool(live))


def _is_launching(entry: Entry) -> bool:
    """Return whether the server has a launch that has not ended."""
    command = ("sky", "api", "status", "--limit=all", _JSON)
    output = run_client(command, variables=entry.target)
    rows = _read_rows("sky api status", output)
    return any(str(row["name"]).endswith("jobs.launch") for row in rows)


def _read_rows(command: str, output: Output) -> list[dict[str, Any]]:
    printed = require_success((command,), output)
    # A local server that had to be started is told of in colours before it.
    start = _ROWS.search(printed)
    rows: list[dict[str, Any]] = read_json(command, printed[start.start() :] if start else printed)
    return rows
