"""Budget of one question: the processor's time that its answer may take."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from anyio.from_thread import check_cancelled

from service.base.errors import InvalidRequestError
from service.estimator.model.architecture import Architecture
from service.estimator.values.corrections import Corrections
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Workload
from service.usecases.questions.fit import FindCorrections, get_time_floor

SMALLER = (
    "ask for fewer kinds of GPUs or a smaller max_gpus, fix what is searched (framework, degrees, "
    "micro_batch_size), or ask for a model with fewer kinds of layers"
)


class TooCostlyError(InvalidRequestError):
    """An answer takes more of a processor than one question may.

    ``budget_s`` is how much that is.
    """

    type = "too-costly"
    title = "This question costs too much"


@dataclass(slots=True, kw_only=True)
class Budget:
    """Seconds of a processor that one answer may take.

    It belongs to the one thread that computes the answer. The clock starts with the first check. A
    thread that waits for others spends nothing, so that a loaded machine refuses no more than an
    idle one.
    """

    seconds: float
    clock: Callable[[], float] = time.thread_time
    check_caller: Callable[[], None] = check_cancelled
    """Raises where nobody waits any more."""
    earlier_s: float = 0.0
    """What earlier turns of the same request spent and paid, which leaves less for this one."""
    spent_s: float = field(default=0.0, init=False)
    """What was spent up to the last check."""
    _started: float | None = field(default=None, init=False)
    _elsewhere_s: float = field(default=0.0, init=False)

    def check(self) -> None:
        """Raise where nobody waits any more, or where the budget is spent.

        Raises the cancellation of the request, and TooCostlyError.
        """
        self.check_caller()
        if self.count_left() < 0.0:
            raise TooCostlyError(self.describe(), budget_s=self.seconds)

    def describe(self) -> str:
        """Return the refusal of a question that passes it, in words."""
        return (
            f"the answer takes more than {self.seconds:g} s of a processor, which is what one "
            f"question may; {SMALLER}"
        )

    def count(self) -> float:
        """Count what was spent since the first call, and return it."""
        now = self.clock()
        if self._started is None:
            self._started = now
        self.spent_s = now - self._started + self._elsewhere_s
        return self.spent_s

    def count_left(self) -> float:
        """Count what was spent, and return what is left."""
        return self.seconds - self.earlier_s - self.count()

    def add(self, seconds: float) -> None:
        """Count the processor's time of another process for this answer."""
        self.count()
        self._elsewhere_s += seconds
        self.spent_s += seconds

    def limit(self, find: FindCorrections) -> FindCorrections:
        """Return a lookup of corrections that checks the budget.

        The lookup comes before every estimate, so that a search ends there.
        """
        return limit_lookup(find, self.check)


def limit_lookup(find: FindCorrections, check: Callable[[], None]) -> FindCorrections:
    """Return a lookup of corrections that makes a check first."""
    return _LimitedLookup(find=find, check=check)


@dataclass(frozen=True, slots=True, kw_only=True)
class _LimitedLookup:
    find: FindCorrections
    check: Callable[[], None]

    def __call__(
        self, architecture: Architecture, workload: Workload, layout: Layout, gpu: str
    ) -> Corrections | None:
        self.check()
        return self.find(architecture, workload, layout, gpu)

    def get_time_floor(self, gpu: str) -> float:
        return get_time_floor(self.find, gpu)
