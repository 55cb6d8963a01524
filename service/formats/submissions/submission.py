"""A job as a scheduler's hook is told of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from service.estimator.values.errors import InvalidInputError
from service.formats.gpu_requests.gres import split_slice
from service.formats.launches.values.launch import LaunchFile

ANNOTATION = "headroom.dev/question"
"""Annotation of a Kubernetes object that holds its question."""
VARIABLE = "HEADROOM_QUESTION"
"""Environment variable of a job that holds its question."""
DIGEST = "HEADROOM_QUESTION_DIGEST"
"""Environment variable of a job that names the question that was answered for it."""
DIRECTIVE = "#HEADROOM"
"""Begin of a line of a job's script that holds its question."""


class SubmissionError(InvalidInputError):
    """A scheduler's document that cannot be read as a job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRequest:
    """GPUs that a job asks for: ``per_node`` on each of ``num_nodes``.

    ``names`` are those that the scheduler has for them, empty where the job does not say which.
    ``memory_gb`` is the memory that each has at least, as vendors count it. ``slice_profile`` is
    that of MIG slices (``3g.40gb``) where the job asks for them in place of GPUs.
    """

    per_node: int
    num_nodes: int = 1
    names: tuple[str, ...] = ()
    memory_gb: float | None = None
    slice_profile: str | None = None

    def __post_init__(self) -> None:
        """Refuse numbers that no job has."""
        if self.per_node < 0 or self.num_nodes < 1:
            message = (
                f"a job asks for {self.per_node} GPUs on each of {self.num_nodes} nodes; that is "
                "0 or more on 1 or more"
            )
            raise SubmissionError(message, field="gpus")

    @property
    def total(self) -> int:
        """All GPUs of the job."""
        return self.per_node * self.num_nodes

    @property
    def is_sliced(self) -> bool:
        """Whether it asks for MIG slices, which do not reach each other."""
        return self.slice_profile is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A job that somebody is about to queue.

    ``scheduler`` is a word such as ``kubernetes``; ``name`` the job's, ``user`` the submitter's and
    ``queue`` the namespace, account, project or partition, ``None`` where unknown.

    ``note`` is the question as the job says it itself, by the convention of all doors; else it is
    read from ``command``, from a ``script`` or from ``files``. ``can_change`` says whether the door
    can give the job another number of GPUs on each node.
    """

    scheduler: str
    name: str | None = None
    user: str | None = None
    queue: str | None = None
    gpus: GpuRequest | None = None
    note: str | None = None
    command: tuple[str, ...] = ()
    script: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    files: tuple[LaunchFile, ...] = ()
    can_change: bool = True
    is_placed: bool = False
    """Whether it runs on the GPUs that it names, whatever its question says."""

    @property
    def length(self) -> int:
        """Characters of all that its question may be read from."""
        texts = (self.note, self.script, *self.command, *self.environment.values())
        return sum(len(text or "") for text in texts) + sum(
            len(file.content) for file in self.files
        )

    @property
    def has_question(self) -> bool:
        """Whether anything of it may say a model and a workload."""
        return bool(self.note or self.command or self.script or self.files)


def split_names(names: Iterable[str], *, field: str) -> tuple[tuple[str, ...], str | None]:
    """Return the GPUs of names, and their MIG profile.

    Raises SubmissionError where some are slices and others are not alike.
    """
    parts = [split_slice(name) for name in names]
    profiles = dict.fromkeys(profile for _, profile in parts)
    if len(profiles) > 1:
        kinds = " and ".join(profile or "whole GPUs" for profile in profiles)
        message = f"it asks for {kinds}, and a question is about GPUs that are alike: ask for one"
        raise SubmissionError(message, field=field)
    gpus = dict.fromkeys(gpu for gpu, _ in parts if gpu)
    return tuple(gpus), next(iter(profiles), None)


def find_note(environment: Mapping[str, str], script: str | None = None) -> str | None:
    """Return the question of a job's variables, else of its script."""
    text = environment.get(VARIABLE, "").strip()
    if text:
        return text
    lines = (line.strip() for line in (script or "").splitlines())
    words = [
        line.removeprefix(DIRECTIVE).strip()
        for line in lines
        if line.startswith((f"{DIRECTIVE} ", f"{DIRECTIVE}\t"))
    ]
    return " ".join(words) or None
