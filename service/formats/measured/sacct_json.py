"""Slurm's accounting as JSON, ``sacct --json``.

The readings are those of ``sacct --parsable2``, under ``jobs[].steps[].tres.requested.max``.

Slurm names ``tres_usage_in_max`` ``tres/requested/max`` there (src/plugins/data_parser,
STEP_TRES_REQ_MAX), counts in bytes, and writes 2^64 - 1 or a flag ``infinite`` for what it did not
gather.
"""

import re
from collections.abc import Iterator, Mapping

from service.formats.measured.reading import MAX_BYTES, MeasuredFormatError, Parsed
from service.formats.measured.sacct import USAGE, read_steps
from service.formats.measured.text import format_value

Row = Mapping[str, str]
_JOB_ID = re.compile(r"[0-9]{1,20}", re.ASCII)


def parse_sacct_json(document: Mapping[str, object]) -> Parsed:
    """Return the readings of every step of every job."""
    jobs = document.get("jobs")
    if not isinstance(jobs, list):
        message = 'has no list "jobs"; expected the output of sacct --json'
        raise MeasuredFormatError(message)
    return read_steps(
        (None, row) for job in jobs for row in _iter_rows(_require_object(job, "a job"))
    )


def _iter_rows(job: Mapping[str, object]) -> Iterator[Row]:
    job_id = str(raw_id) if isinstance(raw_id := job.get("job_id"), int | str) else ""
    if not _JOB_ID.fullmatch(job_id):
        message = f"job_id is {format_value(job.get('job_id'))}; expected the number of a job"
        raise MeasuredFormatError(message)
    yield {
        "JobID": job_id,
        "JobName": _get_text(job, "name"),
        "AllocTRES": _format_allocated(_get_tres(job, "allocated")),
    }
    steps = job.get("steps", [])
    if not isinstance(steps, list):
        message = f"steps of job {job_id} are a {type(steps).__name__}; expected a list"
        raise MeasuredFormatError(message)
    for step in steps:
        yield _make_step_row(job_id, _require_object(step, f"a step of job {job_id}"))


def _make_step_row(job_id: str, step: Mapping[str, object]) -> Row:
    maxima = _get_inner(_get_inner(step, "tres"), "requested").get("max", [])
    usage = [entry for entry in _list_entries(maxima) if _get_name(entry) == "gres/gpumem"]
    row = {
        "JobID": f"{job_id}.{_get_step_name(_get_inner(step, 'step'), job_id)}",
        "NodeList": _get_text(_get_inner(step, "nodes"), "range"),
        "NTasks": _get_text(_get_inner(step, "tasks"), "count"),
        "AllocTRES": _format_allocated(_get_tres(step, "allocated")),
        USAGE: ",".join(
            f"gres/gpumem={count}" for entry in usage if (count := _read_count(entry)) is not None
        ),
        f"{USAGE}Node": ",".join(
            f"gres/gpumem={node}" for entry in usage if isinstance(node := entry.get("node"), str)
        ),
    }
    return {name: value for name, value in row.items() if value}


def _get_step_name(step: Mapping[str, object], job_id: str) -> str:
    """Return the step as sacct prints it.

    Its id is a number, ``batch`` or ``extern``, or an object with such an id.
    """
    step_id = step.get("id", step.get("step_id", ""))
    if isinstance(step_id, Mapping):
        step_id = step_id.get("step_id", "")
    text = str(step_id) if isinstance(step_id, str | int) else ""
    return text.removeprefix(f"{job_id}.") or "0"


def _get_text(part: Mapping[str, object], name: str) -> str:
    value = part.get(name)
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def _get_tres(part: Mapping[str, object], name: str) -> list[Mapping[str, object]]:
    return _list_entries(_get_inner(part, "tres").get(name, []))


def _format_allocated(entries: list[Mapping[str, object]]) -> str:
    counted = [(_get_name(entry), _read_count(entry)) for entry in entries]
    return ",".join(
        f"{name}={count}" for name, count in counted if name.startswith("gres/gpu") and count
    )


def _list_entries(value: object) -> list[Mapping[str, object]]:
    return (
        [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []
    )


def _get_name(entry: Mapping[str, object]) -> str:
    kind, name = _get_text(entry, "type"), _get_text(entry, "name")
    return f"{kind}/{name}" if name else kind


def _read_count(entry: Mapping[str, object]) -> int | None:
    count = entry.get("count")
    if isinstance(count, Mapping):
        count = (
            count.get("number")
            if count.get("set", True) and not count.get("infinite", False)
            else None
        )
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MAX_BYTES:
        return None
    return count


def _get_inner(part: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = part.get(name)
    return value if isinstance(value, Mapping) else {}


def _require_object(value: object, what: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        message = f"{what} is a {type(value).__name__}; expected an object"
        raise MeasuredFormatError(message)
    return value
