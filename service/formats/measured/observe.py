"""From the readings of a file to what was observed of each job: its worst rank, per GPU."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from service.formats.measured.reading import POOL, LeftOut, Quantity, Reading

MEAN = "the mean over the {num_gpus} GPUs of one task, as Slurm adds them up: the fullest of them holds as much or more"


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Which readings a question is about: those whose place has every word that is given here."""

    job: str | None = None
    name: str | None = None
    step: str | None = None
    host: str | None = None
    gpu: str | None = None
    pid: int | None = None

    def holds(self, reading: Reading) -> bool:
        """Tell whether a reading was taken there; a GPU may be named by its index or by its UUID."""
        place = reading.place
        pairs = ((self.job, place.job), (self.name, place.name), (self.step, place.step), (self.host, place.host))
        if any(wanted is not None and wanted != found for wanted, found in pairs):
            return False
        if self.gpu is not None and self.gpu not in {place.gpu, place.gpu_uuid}:
            return False
        return self.pid is None or self.pid == place.pid


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One job's readings; ``peaks`` has the one of each quantity that its neediest rank decides."""

    job: str | None
    readings: tuple[Reading, ...]
    peaks: Mapping[Quantity, Reading]

    @property
    def gpu_name(self) -> str | None:
        """What the file calls the GPU."""
        return next((reading.place.gpu_name for reading in self.readings if reading.place.gpu_name), None)

    def notes(self) -> list[str]:
        """Return what there is to know of how the peaks were seen."""
        notes = list(dict.fromkeys(reading.note for reading in self.peaks.values() if reading.note))
        sampled = [reading for reading in self.peaks.values() if reading.sampled]
        if sampled:
            looks = max(reading.num_samples for reading in sampled)
            seen = f"{looks:,} {'look' if looks == 1 else 'looks'}" if looks else "looks that nobody counted"
            notes.append(f"seen in {seen}: a peak between two of them may be higher")
        return notes


def observe(readings: Iterable[Reading], *, num_gpus: int) -> tuple[tuple[Observation, ...], tuple[LeftOut, ...]]:
    """Return what was observed of each job that asked for ``num_gpus``, in the order of the file, and what tells nothing."""
    by_job: dict[str | None, list[Reading]] = {}
    left_out: list[LeftOut] = []
    for reading in readings:
        found = _of_one_gpu(reading, num_gpus)
        if isinstance(found, LeftOut):
            left_out.append(found)
        else:
            by_job.setdefault(reading.place.job, []).append(found)
    observed = tuple(Observation(job=job, readings=tuple(own), peaks=_peaks(own)) for job, own in by_job.items())
    return observed, tuple(left_out)


def _of_one_gpu(reading: Reading, num_gpus: int) -> Reading | LeftOut:
    """Return a sum over GPUs as their mean, below which the fullest one cannot be."""
    count = reading.num_gpus if reading.num_gpus is not None else (1 if num_gpus == 1 else None)
    if count is None:
        reason = "nothing says over how many GPUs this adds up; have AllocTRES and NTasks among sacct's columns"
        return LeftOut(what=reading.place.label(), reason=reason, line=reading.line)
    if count == 1:
        return replace(reading, num_gpus=1)
    mean = -(-reading.value // count)
    note = MEAN.format(num_gpus=count)
    return replace(reading, value=mean, low=reading.low // count, high=None, num_gpus=1, note=note)


def _peaks(readings: Iterable[Reading]) -> dict[Quantity, Reading]:
    peaks: dict[Quantity, Reading] = {}
    for reading in readings:
        known = peaks.get(reading.quantity)
        if known is None or _decides(reading, known):
            peaks[reading.quantity] = reading
    return peaks


def _decides(reading: Reading, known: Reading) -> bool:
    return reading.value < known.value if reading.quantity in POOL else reading.value > known.value
