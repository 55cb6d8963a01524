"""Decisions about submitted jobs, and the lines that their users read."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

MAX_SENTENCE = 300
UNKNOWN = "headroom cannot say: "
"""How the line about a job begins that cannot be answered."""


class Mode(StrEnum):
    """Permission of a hook about a job that does not fit.

    ``warn`` lets it pass and says so, ``refuse`` refuses it, ``change`` gives it the GPUs that it
    needs where the scheduler lets a hook do that, and refuses it elsewhere.
    """

    WARN = "warn"
    REFUSE = "refuse"
    CHANGE = "change"


class HookVerdict(StrEnum):
    """Verdict on a submitted job.

    ``none`` where it asks for no GPU and no question.
    """

    FITS = "fits"
    TIGHT = "tight"
    DOES_NOT_FIT = "does_not_fit"
    UNKNOWN = "unknown"
    NONE = "none"


class Action(StrEnum):
    """Outcome of a hook for a job."""

    ALLOW = "allow"
    WARN = "warn"
    REFUSE = "refuse"
    CHANGE = "change"


@dataclass(frozen=True, slots=True, kw_only=True)
class HookQuestion:
    """A question as a body of ``POST /v1/fit``, and its digest."""

    digest: str
    document: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The answer of a hook.

    ``sentence`` is one line, empty where there is nothing to say. ``per_node`` is the number of
    GPUs on each node that a job gets where ``action`` is ``change``, and would need elsewhere;
    ``gpu`` the SKU that it was answered for.
    """

    verdict: HookVerdict
    action: Action
    sentence: str = ""
    per_node: int | None = None
    gpu: str | None = None
    lacks_memory: bool = False
    """Whether a GPU of the job is too small, not their number."""
    question: HookQuestion | None = None
    """Of the job as it runs, with its new GPUs where it gets others."""
    before: HookQuestion | None = None
    """Of the job as it was submitted, where it gets others."""
    needed_bytes: int | None = None
    """Of one GPU: at most where it fits."""
    usable_bytes: int | None = None
    is_transient: bool = False
    """Whether another try may be answered: the server was busy, or is yet looking for a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """Reason why a job cannot run as it is submitted.

    It is bytes of one GPU, or a number of GPUs.

    ``per_node`` is what it needs on each node where that is known, with ``settings`` other than its
    own (``zero_stage 3``); ``nothing_fits`` says why no number helps.
    """

    reason: str
    per_node: int | None = None
    settings: tuple[str, ...] = ()
    nothing_fits: str | None = None
    lacks_memory: bool = False
    """Whether a GPU of the job is too small, not their number."""
    is_final: bool = True
    """Whether nobody looks for ``per_node`` any more."""


SILENT = Decision(verdict=HookVerdict.NONE, action=Action.ALLOW)


def make_line(text: str, link: str | None = None) -> str:
    """Return a text as one line of at most 300 printable characters.

    A link stands at its end as it is.
    """
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    end = "" if link is None else f" {link}"
    room = max(1, MAX_SENTENCE - len(end))
    return f"{line if len(line) <= room else f'{line[: room - 1]}…'}{end}"


def decide_unknown(
    why: str, *, fails_closed: bool = False, quiet: bool = False, is_transient: bool = False
) -> Decision:
    """Return the decision about a job that cannot be answered.

    It passes, unless an operator wants none to pass that is not known to fit. ``quiet`` is for jobs
    that never asked: whoever runs a notebook need not read of it each time. ``is_transient`` is for
    a server that was busy.
    """
    passing = Action.ALLOW if quiet else Action.WARN
    return Decision(
        verdict=HookVerdict.UNKNOWN,
        action=Action.REFUSE if fails_closed else passing,
        sentence=make_line(f"{UNKNOWN}{why}"),
        is_transient=is_transient,
    )


def decide_shortage(
    shortage: Shortage, mode: Mode, *, gpu: str, requested: int | None, can_change: bool
) -> Decision:
    """Return the decision about a job that does not fit.

    ``requested`` is the number of GPUs that it asks for on each node. ``can_change`` says that it
    would run on another number as it is.
    """
    may_change = mode is Mode.CHANGE and can_change
    changes = may_change and not shortage.settings and shortage.per_node not in {None, requested}
    action = Action.WARN if mode is Mode.WARN else Action.REFUSE
    return Decision(
        verdict=HookVerdict.DOES_NOT_FIT,
        action=Action.CHANGE if changes else action,
        sentence=make_line(f"{shortage.reason}{_describe_way_out(shortage, gpu, changes=changes)}"),
        per_node=shortage.per_node,
        gpu=gpu,
        lacks_memory=shortage.lacks_memory,
        is_transient=not shortage.is_final,
    )


def _describe_way_out(shortage: Shortage, gpu: str, *, changes: bool) -> str:
    if shortage.per_node is not None:
        verb = "it gets" if changes else "it needs"
        settings = f" with {', '.join(shortage.settings)}" if shortage.settings else ""
        return f"; {verb} {shortage.per_node} x {gpu}{settings}"
    return "" if shortage.nothing_fits is None else f"; {shortage.nothing_fits}"
