"""Slurm's accounting, ``sacct --parsable2``: peak GPU memory of each step.

It is the highest of any task of the step.

``TRESUsageInMax`` holds ``gres/gpumem``: what the tasks' processes had on all their GPUs together,
as NVML counts it for a process (slurm.schedmd.com/sacct.html; src/plugins/gpu/nvml/gpu_nvml.c sums
``usedGpuMemory`` over a task's processes).
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from service.formats.measured.reading import (
    Format,
    LeftOut,
    MeasuredFormatError,
    Parsed,
    Place,
    Quantity,
    Reading,
)
from service.formats.measured.text import iter_lines

_SIZE = re.compile(
    r"(?P<number>[0-9]{1,19})(?P<fraction>\.[0-9]{1,6})?(?P<unit>[KMGTP]?)", re.ASCII
)
_COUNT = re.compile(r"0*[1-9][0-9]{0,8}", re.ASCII)
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_SEPARATORS = "|,;\t"
ID_COLUMNS = ("JobID", "JobIDRaw")
USAGE = "TRESUsageInMax"
_BATCH = "batch"
_INNER_STEPS = frozenset({"extern"})


def parse_sacct(text: str) -> Parsed:
    """Return the readings of steps with GPU memory."""
    lines = [(number, line.strip()) for number, line in iter_lines(text) if line.strip()]
    if not lines:
        message = "is empty; expected the output of sacct --parsable2 with its header"
        raise MeasuredFormatError(message, line=1)
    columns, separator = _read_header(*lines[0])
    rows = [(number, _read_row(number, line, columns, separator)) for number, line in lines[1:]]
    return read_steps(rows)


def read_steps(rows: Iterable[tuple[int | None, Mapping[str, str]]]) -> Parsed:
    """Return the readings of accounting rows by sacct's column names."""
    numbered = list(rows)
    if not numbered:
        message = (
            "has no job: sacct found none, so look at its -j, -S and -E; expected a row for each "
            "step"
        )
        raise MeasuredFormatError(message)
    jobs = {_get_job_id(row): row for _, row in numbered if "." not in _get_step_id(row)}
    readings: list[Reading] = []
    left_out: list[LeftOut] = []
    for line, row in numbered:
        result = _make_reading(line, row, jobs.get(_get_job_id(row), {}))
        (readings if isinstance(result, Reading) else left_out).append(result)  # type: ignore[arg-type]  # one list takes each kind
    return Parsed(format=Format.SACCT, readings=tuple(readings), left_out=tuple(left_out))


def parse_size(text: str, *, line: int | None, what: str) -> tuple[int, int, int]:
    """Return bytes, lowest and highest, of an amount in Slurm's format.

    Amounts are powers of 1024, cut to a unit unless --noconvert.
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        message = f"{what} is {text[:40]!r}; expected bytes such as 40777023488, or 38888M"
        raise MeasuredFormatError(message, line=line)
    unit: int = 1024 ** _POWERS[match["unit"]]
    if match["unit"] == "":
        value = int(match["number"])
        return value, value, value
    digits = len(match["fraction"] or ".") - 1
    step = unit // 10**digits or 1
    value = round(float(match["number"] + (match["fraction"] or "")) * unit)
    # Rounded or cut, the true amount is less than one printed step away.
    return value, max(0, value - step), value + step


def iter_usages(text: str) -> Iterator[tuple[str, str]]:
    """Yield the pairs of a TRES string.

    One is ``cpu=00:56:24,gres/gpumem=38888M``.
    """
    for part in text.split(","):
        name, _, value = part.partition("=")
        if value:
            yield name.strip(), value.strip()


def count_gpus(tres: str) -> int | None:
    """Return the number of GPUs in a TRES string.

    ``None`` where it names none.
    """
    counts = [(name, int(value)) for name, value in iter_usages(tres) if _COUNT.fullmatch(value)]
    plain = [count for name, count in counts if name == "gres/gpu"]
    typed = [count for name, count in counts if name.startswith("gres/gpu:")]
    total = plain[0] if plain else sum(typed)
    return total or None


def find_gpu_type(tres: str) -> str | None:
    """Return the GPU type in a TRES string.

    ``gres/gpu:a100=4`` has the type ``a100``.
    """
    return next(
        (name.partition(":")[2] for name, _ in iter_usages(tres) if name.startswith("gres/gpu:")),
        None,
    )


def _read_header(number: int, line: str) -> tuple[list[str], str]:
    for separator in _SEPARATORS:
        names = [name.strip() for name in line.rstrip(separator).split(separator)]
        if any(name in ID_COLUMNS for name in names):
            if USAGE not in names:
                message = (
                    f"has no column {USAGE}; ask sacct -P --noconvert -o "
                    f"JobID,JobName,State,NTasks,AllocTRES,{USAGE}"
                )
                raise MeasuredFormatError(message, line=number)
            return names, separator
    message = (
        f"expected the header of sacct -P with JobID and {USAGE} (leave -n out), and found "
        f"{line[:60]!r}"
    )
    raise MeasuredFormatError(message, line=number)


def _read_row(number: int, line: str, columns: list[str], separator: str) -> Mapping[str, str]:
    values = line.split(separator)
    if separator == "," and len(values) > len(columns):
        message = (
            "has more commas than columns, because TRES have commas themselves; ask sacct "
            "--parsable2, without --delimiter"
        )
        raise MeasuredFormatError(message, line=number)
    while len(values) > len(columns) and values[-1] == "":
        values.pop()
    if len(values) != len(columns):
        message = (
            f"has {len(values)} columns; expected the {len(columns)} of the header: "
            f"{', '.join(columns)}"
        )
        raise MeasuredFormatError(message, line=number)
    return dict(zip(columns, (value.strip() for value in values), strict=True))


def _get_step_id(row: Mapping[str, str]) -> str:
    return next((row[name] for name in ID_COLUMNS if row.get(name)), "")


def _get_job_id(row: Mapping[str, str]) -> str:
    return _get_step_id(row).partition(".")[0]


def _make_reading(
    line: int | None, row: Mapping[str, str], job: Mapping[str, str]
) -> Reading | LeftOut:
    step_id = _get_step_id(row)
    if "." not in step_id:
        return LeftOut(
            what=f"job {step_id}",
            reason="the row of a job sums nothing up; its steps have the readings",
            line=line,
        )
    step = step_id.partition(".")[2]
    if step in _INNER_STEPS:
        return LeftOut(
            what=f"step {step_id}", reason="Slurm's own step runs nothing of the job", line=line
        )
    usage = dict(iter_usages(row.get(USAGE, ""))).get("gres/gpumem")
    if usage is None:
        return LeftOut(
            what=f"step {step_id}",
            reason="no gres/gpumem: it used no GPU, or Slurm gathers none here",
            line=line,
        )
    value, low, high = parse_size(usage, line=line, what=f"gres/gpumem of step {step_id}")
    if value == 0:
        reason = (
            "gres/gpumem is 0: it used no GPU, or the driver counts none (MIG, or another vendor's)"
        )
        return LeftOut(what=f"step {step_id}", reason=reason, line=line)
    tres = row.get("AllocTRES") or job.get("AllocTRES", "")
    return Reading(
        quantity=Quantity.DEVICE,
        value=value,
        low=low,
        high=high,
        place=Place(
            job=_get_job_id(row),
            name=job.get("JobName") or row.get("JobName"),
            step=step,
            host=_get_host(row),
            gpu_name=find_gpu_type(tres),
            rank=row.get(f"{USAGE}Task") and _get_first_task(row[f"{USAGE}Task"]),
        ),
        line=line,
        # Slurm polls its tasks every JobAcctGatherFrequency seconds.
        sampled=True,
        num_samples=0,
        num_gpus=_count_gpus_per_task(tres, row.get("NTasks", "")),
        job_gpus=_count_step_gpus(step, row, job),
        since=row.get("Start") or None,
        until=row.get("End") or None,
    )


def _count_step_gpus(step: str, row: Mapping[str, str], job: Mapping[str, str]) -> int | None:
    """Return the number of GPUs of a step.

    The batch step's row has those of its first node alone, and the job's row all.
    """
    return count_gpus((job if step == _BATCH and job else row).get("AllocTRES", ""))


def _get_host(row: Mapping[str, str]) -> str | None:
    node = dict(iter_usages(row.get(f"{USAGE}Node", ""))).get("gres/gpumem")
    return node or row.get("NodeList") or None


def _get_first_task(text: str) -> str | None:
    return dict(iter_usages(text)).get("gres/gpumem")


def _count_gpus_per_task(tres: str, num_tasks: str) -> int | None:
    """Return the number of GPUs that a task's reading covers.

    It is the step's GPUs, shared out evenly.
    """
    gpus = count_gpus(tres)
    if gpus is None or not _COUNT.fullmatch(num_tasks):
        return 1 if gpus == 1 else None
    return max(1, -(-gpus // int(num_tasks)))
