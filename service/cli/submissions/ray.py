"""Ray: a job of its own id, which Ray takes once."""

import json
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from service.base.errors import InvalidRequestError
from service.cli.submissions.clients import fill_variables, require_success, run_client
from service.cli.submissions.errors import SchedulerError
from service.cli.submissions.journal import Entry
from service.cli.submissions.scheduler import Sighting

_STATUS = re.compile(
    r"^.* -- (?:Status for job '[^']+': (?P<live>\w+)"
    r"|Job '[^']+' (?P<end>succeeded|failed|was stopped))$",
    re.MULTILINE,
)
"""What `ray job status` says (ray/dashboard/modules/job/cli.py, ``_log_job_status``)."""
_ADDRESSES = ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS")
"""Variables that overrule ``--address`` (ray/dashboard/utils.py)."""
_STYLE = "--log-style=record"


class Ray:
    """Client of Ray's jobs, at the address that its variables had."""

    format = "ray"

    def locate(self) -> Mapping[str, str]:
        """Return the address, which is empty where Ray looks on this machine."""
        return {name: os.environ.get(name, "") for name in _ADDRESSES}

    def prepare(self, document: Any, entry: Entry) -> str:  # noqa: ANN401 - JSON
        """Return the job with the variables that are of this environment.

        Raises InvalidRequestError for one that no job runs.
        """
        job = document["job"]
        if job is None:
            message = (
                "several servers of one job would listen on one port: ask for --format rayservice, "
                "whose replicas Ray Serve balances"
            )
            raise InvalidRequestError(message)
        return json.dumps({**job, "env_vars": fill_variables(job["env_vars"], entry.digest)})

    def submit(self, entry: Entry) -> str:
        """Submit the job, under the mark as its id.

        Ray refuses an id that it has.
        """
        job = json.loads(entry.payload)
        with tempfile.TemporaryDirectory() as folder:
            for name, content in job["files"].items():
                (Path(folder) / name).write_text(content, encoding="utf-8")
            command = (
                *("ray", "job", "submit", f"--submission-id={entry.mark}", "--no-wait", _STYLE),
                f"--working-dir={folder}",
                f"--runtime-env-json={json.dumps({'env_vars': job['env_vars']})}",
                *("--", *job["entrypoint"].split()),
            )
            require_success(("ray job submit",), run_client(command, variables=entry.target))
        return entry.mark

    def find(self, entry: Entry) -> Sighting:
        """Ask for the job by its id.

        Ray knows it as long as its head runs.
        """
        command = ("ray", "job", "status", entry.mark, _STYLE)
        output = run_client(command, variables=entry.target)
        if output.code != 0 and f"Job {entry.mark} does not exist" in output.err:
            return Sighting(is_certain=True)
        text = require_success(("ray job status",), output) + output.err
        status = _STATUS.search(text)
        if status is None:
            message = f"ray job status says nothing of the job, but {text[:80]!r}"
            raise SchedulerError(message)
        return Sighting(job=entry.mark, is_alive=status["end"] is None)
