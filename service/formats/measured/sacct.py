"""Slurm's accounting, ``sacct --parsable2``: the highest GPU memory of any task of each step.

``TRESUsageInMax`` holds ``gres/gpumem``: what the tasks' processes had on all their GPUs together, as NVML counts it for a
process (slurm.schedmd.com/sacct.html; src/plugins/gpu/nvml/gpu_nvml.c sums ``usedGpuMemory`` over a task's processes).
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from service.formats.measured.reading import Format, LeftOut, MeasuredFormatError, Parsed, Place, Quantity, Reading
from service.formats.measured.text import lines_of

_SIZE = re.compile(r"(?P<number>[0-9]{1,19})(?P<fraction>\.[0-9]{1,6})?(?P<unit>[KMGTP]?)", re.ASCII)
_COUNT = re.compile(r"0*[1-9][0-9]{0,8}", re.ASCII)
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_SEPARATORS = "|,;\t"
ID_COLUMNS = ("JobID", "JobIDRaw")
USAGE = "TRESUsageInMax"
_BATCH = "batch"
_INNER_STEPS = frozenset({"extern"})


def parse_sacct(text: str) -> Parsed:
    """Return the readings of every step that says what GPU memory it used."""
    lines = [(number, line.strip()) for number, line in lines_of(text) if line.strip()]
    if not lines:
        message = "is empty; expected the output of sacct --parsable2 with its header"
        raise MeasuredFormatError(message, line=1)
    columns, separator = _header(*lines[0])
    rows = [(number, _row(number, line, columns, separator)) for number, line in lines[1:]]
    return read_steps(rows)


def read_steps(rows: Iterable[tuple[int | None, Mapping[str, str]]]) -> Parsed:
    """Return the readings of rows of accounting, by the names of sacct's columns."""
    every = list(rows)
    if not every:
        message = "has no job: sacct found none, so look at its -j, -S and -E; expected a row for each step"
        raise MeasuredFormatError(message)
    jobs = {_job_id(row): row for _, row in every if "." not in _step_id(row)}
    readings: list[Reading] = []
    left_out: list[LeftOut] = []
    for line, row in every:
        found = _reading(line, row, jobs.get(_job_id(row), {}))
        (readings if isinstance(found, Reading) else left_out).append(found)  # type: ignore[arg-type]  # one list takes each kind
    return Parsed(format=Format.SACCT, readings=tuple(readings), left_out=tuple(left_out))


def size_of(text: str, *, line: int | None, what: str) -> tuple[int, int, int]:
    """Return bytes, lowest and highest, of an amount as Slurm prints it: powers of 1024, cut to a unit unless --noconvert."""
    found = _SIZE.fullmatch(text)
    if found is None:
        message = f"{what} is {text[:40]!r}; expected bytes such as 40777023488, or 38888M"
        raise MeasuredFormatError(message, line=line)
    unit: int = 1024 ** _POWERS[found["unit"]]
    if found["unit"] == "":
        value = int(found["number"])
        return value, value, value
    digits = len(found["fraction"] or ".") - 1
    step = unit // 10**digits or 1
    value = round(float(found["number"] + (found["fraction"] or "")) * unit)
    # Rounded or cut, the true amount is less than one printed step away.
    return value, max(0, value - step), value + step


def usages(text: str) -> Iterator[tuple[str, str]]:
    """Yield the pairs of a TRES string: ``cpu=00:56:24,gres/gpumem=38888M``."""
    for part in text.split(","):
        name, _, value = part.partition("=")
        if value:
            yield name.strip(), value.strip()


def num_gpus_of(tres: str) -> int | None:
    """Return how many GPUs a TRES string allocates; ``None`` where it names none."""
    counts = [(name, int(value)) for name, value in usages(tres) if _COUNT.fullmatch(value)]
    plain = [count for name, count in counts if name == "gres/gpu"]
    typed = [count for name, count in counts if name.startswith("gres/gpu:")]
    found = plain[0] if plain else sum(typed)
    return found or None


def gpu_type_of(tres: str) -> str | None:
    """Return the type of GPU that a TRES string names, as in ``gres/gpu:a100=4``."""
    return next((name.partition(":")[2] for name, _ in usages(tres) if name.startswith("gres/gpu:")), None)


def _header(number: int, line: str) -> tuple[list[str], str]:
    for separator in _SEPARATORS:
        names = [name.strip() for name in line.rstrip(separator).split(separator)]
        if any(name in ID_COLUMNS for name in names):
            if USAGE not in names:
                message = f"has no column {USAGE}; ask sacct -P --noconvert -o JobID,JobName,State,NTasks,AllocTRES,{USAGE}"
                raise MeasuredFormatError(message, line=number)
            return names, separator
    message = f"expected the header of sacct -P with JobID and {USAGE} (leave -n out), and found {line[:60]!r}"
    raise MeasuredFormatError(message, line=number)


def _row(number: int, line: str, columns: list[str], separator: str) -> Mapping[str, str]:
    values = line.split(separator)
    if separator == "," and len(values) > len(columns):
        message = (
            "has more commas than columns, because TRES have commas themselves; ask sacct --parsable2, without --delimiter"
        )
        raise MeasuredFormatError(message, line=number)
    while len(values) > len(columns) and values[-1] == "":
        values.pop()
    if len(values) != len(columns):
        message = f"has {len(values)} columns; expected the {len(columns)} of the header: {', '.join(columns)}"
        raise MeasuredFormatError(message, line=number)
    return dict(zip(columns, (value.strip() for value in values), strict=True))


def _step_id(row: Mapping[str, str]) -> str:
    return next((row[name] for name in ID_COLUMNS if row.get(name)), "")


def _job_id(row: Mapping[str, str]) -> str:
    return _step_id(row).partition(".")[0]


def _reading(line: int | None, row: Mapping[str, str], job: Mapping[str, str]) -> Reading | LeftOut:
    step_id = _step_id(row)
    if "." not in step_id:
        return LeftOut(what=f"job {step_id}", reason="the row of a job sums nothing up; its steps have the readings", line=line)
    step = step_id.partition(".")[2]
    if step in _INNER_STEPS:
        return LeftOut(what=f"step {step_id}", reason="Slurm's own step runs nothing of the job", line=line)
    said = dict(usages(row.get(USAGE, ""))).get("gres/gpumem")
    if said is None:
        return LeftOut(what=f"step {step_id}", reason="no gres/gpumem: it used no GPU, or Slurm gathers none here", line=line)
    value, low, high = size_of(said, line=line, what=f"gres/gpumem of step {step_id}")
    if value == 0:
        reason = "gres/gpumem is 0: it used no GPU, or the driver counts none (MIG, or another vendor's)"
        return LeftOut(what=f"step {step_id}", reason=reason, line=line)
    tres = row.get("AllocTRES") or job.get("AllocTRES", "")
    return Reading(
        quantity=Quantity.DEVICE,
        value=value,
        low=low,
        high=high,
        place=Place(
            job=_job_id(row),
            name=job.get("JobName") or row.get("JobName"),
            step=step,
            host=_host(row),
            gpu_name=gpu_type_of(tres),
            rank=row.get(f"{USAGE}Task") and _first_task(row[f"{USAGE}Task"]),
        ),
        line=line,
        # Slurm polls its tasks every JobAcctGatherFrequency seconds.
        sampled=True,
        num_samples=0,
        num_gpus=_gpus_per_task(tres, row.get("NTasks", "")),
        job_gpus=_gpus_of_step(step, row, job),
        since=row.get("Start") or None,
        until=row.get("End") or None,
    )


def _gpus_of_step(step: str, row: Mapping[str, str], job: Mapping[str, str]) -> int | None:
    """Return how many GPUs a step had; the batch step's row has those of its first node alone, and the job's row all."""
    return num_gpus_of((job if step == _BATCH and job else row).get("AllocTRES", ""))


def _host(row: Mapping[str, str]) -> str | None:
    node = dict(usages(row.get(f"{USAGE}Node", ""))).get("gres/gpumem")
    return node or row.get("NodeList") or None


def _first_task(text: str) -> str | None:
    return dict(usages(text)).get("gres/gpumem")


def _gpus_per_task(tres: str, num_tasks: str) -> int | None:
    """Return over how many GPUs a task's reading goes: those of its step, shared out evenly."""
    gpus = num_gpus_of(tres)
    if gpus is None or not _COUNT.fullmatch(num_tasks):
        return 1 if gpus == 1 else None
    return max(1, -(-gpus // int(num_tasks)))
