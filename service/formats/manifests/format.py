"""A format of rendered requests, and what it can carry."""

from collections.abc import Callable
from dataclasses import dataclass

from service.formats.renderings.job import Job, Launch

Document = dict[str, object] | str
"""An object of a scheduler's API, a List of several, or the text of a script."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One way to ask for a job, by its word.

    ``trains`` and ``serves``: whether it carries training and batch jobs, and servers;
    ``spans_nodes``: one replica on several of them; ``takes_slices``: MIG slices.

    ``vendors`` of GPUs that it has words for; None where it has for all. ``options`` are those that
    it takes.
    """

    word: str
    title: str
    render: Callable[[Job, Launch], Document]
    trains: bool = True
    serves: bool = True
    spans_nodes: bool = True
    takes_slices: bool = True
    vendors: frozenset[str] | None = None
    options: frozenset[str] = frozenset({"name"})

    def find_obstacle(self, job: Job) -> str | None:
        """Return why it cannot carry a job; None where it can."""
        if job.is_server and not self.serves:
            return f"{self.word} runs jobs that end, and this is a server"
        if not job.is_server and not self.trains:
            return f"{self.word} runs servers, and this is a job that ends"
        if job.num_nodes > 1 and not self.spans_nodes:
            return f"{self.word} is on one node, and a replica of this spans {job.num_nodes}"
        if job.mig_profile is not None and not self.takes_slices:
            return f"{self.word} has no word for the MIG slice {job.mig_profile}"
        if self.vendors is not None and job.vendor not in self.vendors:
            return (
                f"{self.word} has words for GPUs of {', '.join(sorted(self.vendors))}; this one is "
                f"of {job.vendor}"
            )
        return self._explain_options(job)

    def _explain_options(self, job: Job) -> str | None:
        """Return which options it does not take."""
        foreign = [name for name in job.options.list_set_names() if name not in self.options]
        if not foreign:
            return None
        offered = ", ".join(sorted(self.options)) or "none"
        return f"{self.word} takes no {' or '.join(foreign)}: its options are {offered}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """A job in one format.

    ``document`` is an object or a script, None where the format cannot carry the job, for
    ``reason``.
    """

    word: str
    document: Document | None = None
    reason: str | None = None
