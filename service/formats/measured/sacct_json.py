"""Slurm's accounting as JSON, ``sacct --json``: the same readings, under ``jobs[].steps[].tres.requested.max``.

Slurm names ``tres_usage_in_max`` ``tres/requested/max`` there (src/plugins/data_parser, STEP_TRES_REQ_MAX), counts in bytes,
and writes 2^64 - 1 or a flag ``infinite`` for what it did not gather.
"""

import re
from collections.abc import Iterator, Mapping

from service.formats.measured.reading import MAX_BYTES, MeasuredFormatError, Parsed
from service.formats.measured.sacct import USAGE, read_steps
from service.formats.measured.text import shown

Row = Mapping[str, str]
_JOB_ID = re.compile(r"[0-9]{1,20}", re.ASCII)


def parse_sacct_json(document: Mapping[str, object]) -> Parsed:
    """Return the readings of every step of every job."""
    jobs = document.get("jobs")
    if not isinstance(jobs, list):
        message = 'has no list "jobs"; expected the output of sacct --json'
        raise MeasuredFormatError(message)
    return read_steps((None, row) for job in jobs for row in _rows(_object(job, "a job")))


def _rows(job: Mapping[str, object]) -> Iterator[Row]:
    job_id = str(found) if isinstance(found := job.get("job_id"), int | str) else ""
    if not _JOB_ID.fullmatch(job_id):
        message = f"job_id is {shown(job.get('job_id'))}; expected the number of a job"
        raise MeasuredFormatError(message)
    yield {"JobID": job_id, "JobName": _text(job, "name"), "AllocTRES": _allocated(_tres(job, "allocated"))}
    steps = job.get("steps", [])
    if not isinstance(steps, list):
        message = f"steps of job {job_id} are a {type(steps).__name__}; expected a list"
        raise MeasuredFormatError(message)
    for step in steps:
        yield _step(job_id, _object(step, f"a step of job {job_id}"))


def _step(job_id: str, step: Mapping[str, object]) -> Row:
    asked = _inner(_inner(step, "tres"), "requested").get("max", [])
    usage = [entry for entry in _entries(asked) if _name(entry) == "gres/gpumem"]
    row = {
        "JobID": f"{job_id}.{_step_name(_inner(step, 'step'), job_id)}",
        "NodeList": _text(_inner(step, "nodes"), "range"),
        "NTasks": _text(_inner(step, "tasks"), "count"),
        "AllocTRES": _allocated(_tres(step, "allocated")),
        USAGE: ",".join(f"gres/gpumem={count}" for entry in usage if (count := _count(entry)) is not None),
        f"{USAGE}Node": ",".join(f"gres/gpumem={node}" for entry in usage if isinstance(node := entry.get("node"), str)),
    }
    return {name: value for name, value in row.items() if value}


def _step_name(step: Mapping[str, object], job_id: str) -> str:
    """Return the step as sacct prints it: its id is a number, ``batch`` or ``extern``, or an object with such an id."""
    found = step.get("id", step.get("step_id", ""))
    if isinstance(found, Mapping):
        found = found.get("step_id", "")
    text = str(found) if isinstance(found, str | int) else ""
    return text.removeprefix(f"{job_id}.") or "0"


def _text(part: Mapping[str, object], name: str) -> str:
    found = part.get(name)
    return str(found) if isinstance(found, str | int) and not isinstance(found, bool) else ""


def _tres(part: Mapping[str, object], name: str) -> list[Mapping[str, object]]:
    return _entries(_inner(part, "tres").get(name, []))


def _allocated(entries: list[Mapping[str, object]]) -> str:
    counted = [(_name(entry), _count(entry)) for entry in entries]
    return ",".join(f"{name}={count}" for name, count in counted if name.startswith("gres/gpu") and count)


def _entries(found: object) -> list[Mapping[str, object]]:
    return [entry for entry in found if isinstance(entry, Mapping)] if isinstance(found, list) else []


def _name(entry: Mapping[str, object]) -> str:
    kind, name = _text(entry, "type"), _text(entry, "name")
    return f"{kind}/{name}" if name else kind


def _count(entry: Mapping[str, object]) -> int | None:
    count = entry.get("count")
    if isinstance(count, Mapping):
        count = count.get("number") if count.get("set", True) and not count.get("infinite", False) else None
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MAX_BYTES:
        return None
    return count


def _inner(part: Mapping[str, object], name: str) -> Mapping[str, object]:
    found = part.get(name)
    return found if isinstance(found, Mapping) else {}


def _object(value: object, what: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        message = f"{what} is a {type(value).__name__}; expected an object"
        raise MeasuredFormatError(message)
    return value
