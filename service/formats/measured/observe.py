"""Observations of jobs from a file's readings.

Each has its job's worst rank, per GPU.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from service.formats.measured.reading import POOL, LeftOut, Quantity, Reading

MEAN_NOTE = (
    "the mean over the {num_gpus} GPUs of one task, as Slurm adds them up: the fullest of them "
    "holds as much or more"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Selection of a question's readings by their place.

    A reading matches where its place has every field that is set here.
    """

    job: str | None = None
    name: str | None = None
    step: str | None = None
    host: str | None = None
    gpu: str | None = None
    pid: int | None = None

    def matches(self, reading: Reading) -> bool:
        """Return whether a reading's place matches.

        A GPU may be named by its index or by its UUID.
        """
        place = reading.place
        pairs = (
            (self.job, place.job),
            (self.name, place.name),
            (self.step, place.step),
            (self.host, place.host),
        )
        if any(expected is not None and expected != actual for expected, actual in pairs):
            return False
        if self.gpu is not None and self.gpu not in {place.gpu, place.gpu_uuid}:
            return False
        return self.pid is None or self.pid == place.pid


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Readings of one job.

    ``peaks`` has the reading of each quantity that its neediest rank decides.
    """

    job: str | None
    readings: tuple[Reading, ...]
    peaks: Mapping[Quantity, Reading]

    @property
    def gpu_name(self) -> str | None:
        """Name of the GPU in the file."""
        return next(
            (reading.place.gpu_name for reading in self.readings if reading.place.gpu_name), None
        )

    def notes(self) -> list[str]:
        """Return notes on how the peaks were sampled."""
        notes = list(dict.fromkeys(reading.note for reading in self.peaks.values() if reading.note))
        sampled = [reading for reading in self.peaks.values() if reading.sampled]
        if sampled:
            num_samples = max(reading.num_samples for reading in sampled)
            sampling = (
                f"{num_samples:,} {'look' if num_samples == 1 else 'looks'}"
                if num_samples
                else "looks that nobody counted"
            )
            notes.append(f"seen in {sampling}: a peak between two of them may be higher")
        return notes


def observe(
    readings: Iterable[Reading], *, num_gpus: int
) -> tuple[tuple[Observation, ...], tuple[LeftOut, ...]]:
    """Return observations by job, and readings left out.

    They are of jobs that asked for ``num_gpus``, in the order of the file.
    """
    by_job: dict[str | None, list[Reading]] = {}
    left_out: list[LeftOut] = []
    for reading in readings:
        per_gpu = _reduce_to_one_gpu(reading, num_gpus)
        if isinstance(per_gpu, LeftOut):
            left_out.append(per_gpu)
        else:
            by_job.setdefault(reading.place.job, []).append(per_gpu)
    observed = tuple(
        Observation(job=job, readings=tuple(job_readings), peaks=_select_peaks(job_readings))
        for job, job_readings in by_job.items()
    )
    return observed, tuple(left_out)


def _reduce_to_one_gpu(reading: Reading, num_gpus: int) -> Reading | LeftOut:
    """Return a sum over GPUs as their mean.

    The fullest GPU cannot be below it.
    """
    count = reading.num_gpus if reading.num_gpus is not None else (1 if num_gpus == 1 else None)
    if count is None:
        reason = (
            "nothing says over how many GPUs this adds up; have AllocTRES and NTasks among sacct's "
            "columns"
        )
        return LeftOut(what=reading.place.label(), reason=reason, line=reading.line)
    if count == 1:
        return replace(reading, num_gpus=1)
    mean = -(-reading.value // count)
    note = MEAN_NOTE.format(num_gpus=count)
    return replace(reading, value=mean, low=reading.low // count, high=None, num_gpus=1, note=note)


def _select_peaks(readings: Iterable[Reading]) -> dict[Quantity, Reading]:
    peaks: dict[Quantity, Reading] = {}
    for reading in readings:
        current = peaks.get(reading.quantity)
        if current is None or _is_decisive(reading, current):
            peaks[reading.quantity] = reading
    return peaks


def _is_decisive(reading: Reading, current: Reading) -> bool:
    return (
        reading.value < current.value if reading.quantity in POOL else reading.value > current.value
    )
