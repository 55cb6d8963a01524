"""A job as a scheduler's hook is told of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from service.estimator.values.errors import InvalidInputError
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
    ``memory_gb`` is the memory that each has at least, as vendors count it.
    """

    per_node: int
    num_nodes: int = 1
    names: tuple[str, ...] = ()
    memory_gb: float | None = None

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
    def has_question(self) -> bool:
        """Whether anything of it may say a model and a workload."""
        return bool(self.note or self.command or self.script or self.files)


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
