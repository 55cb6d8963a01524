"""Progress and samples on their way to the database."""

from collections.abc import Sequence

from service.base.errors import ServiceError, UnavailableError
from service.db.tables.types import UnstorableValueError
from service.jobs.contract import Planned, Progress, Sample
from service.usecases.jobs.attempts import Unwritten
from worker.reporter import REPORT_INTERVAL_S, Reporter

Written = tuple[Progress | None, list[Sample], int]


class Store:
    """Keeps what is written, and fails when told to."""

    def __init__(self) -> None:
        """Keep nothing yet."""
        self.written: list[Written] = []
        self.error: ServiceError | None = None
        self.is_running = True
        self.plans: list[Planned] = []

    def write(
        self,
        *,
        progress: Progress | None,
        samples: Sequence[Sample],
        samples_before: int,
        planned: Planned | None,
    ) -> bool:
        """Keep one report."""
        if self.error is not None:
            raise self.error
        if planned is not None:
            self.plans.append(planned)
        if self.is_running:
            self.written.append((progress, list(samples), samples_before))
        return self.is_running


def progress(fraction: float) -> Progress:
    """Return a progress line."""
    return Progress(phase="running", done=0, total=1, fraction=fraction)


def sample(size: int) -> Sample:
    """Return a sample."""
    return Sample(t_s=0.0, kind="process_rss", bytes=size)


def test_of_several_progress_lines_the_last_is_written_and_every_sample() -> None:
    """A report says how far it is now, and all that was read."""
    store = Store()
    reporter = Reporter(store.write, clock=lambda: 0.0)
    for line in (progress(0.1), sample(1), progress(0.2), sample(2)):
        reporter.take(line)

    reporter.flush()

    assert store.written == [(progress(0.2), [sample(1), sample(2)], 0)]


def test_writes_are_throttled() -> None:
    """Between two writes lies the interval, however many lines come."""
    now = 0.0
    store = Store()
    reporter = Reporter(store.write, clock=lambda: now)

    for tick in range(100):
        now = tick * REPORT_INTERVAL_S / 10
        reporter.take(progress(tick / 100))
        reporter.flush_if_due()

    assert len(store.written) == 10


def test_what_could_not_be_written_waits() -> None:
    """A database that is away loses no sample, and samples keep their numbers."""
    store = Store()
    reporter = Reporter(store.write, clock=lambda: 0.0)
    store.error = UnavailableError("away")
    reporter.take(sample(1))
    reporter.flush()
    store.error = None
    reporter.take(sample(2))
    reporter.flush()
    reporter.take(sample(3))
    reporter.flush()

    assert store.written == [(None, [sample(1), sample(2)], 0), (None, [sample(3)], 2)]


def test_samples_of_an_attempt_that_is_not_the_running_one_go_with_its_outcome() -> None:
    """The lease ran out, and the result may still count: its samples are kept for it, under their
    numbers.
    """
    store = Store()
    reporter = Reporter(store.write, clock=lambda: 0.0)
    reporter.take(sample(1))
    reporter.flush()
    store.is_running = False
    reporter.take(sample(2))
    reporter.flush()

    assert store.written == [(None, [sample(1)], 0)]
    assert reporter.unwritten == Unwritten(samples=(sample(2),), before=1)


def test_a_plan_is_written_once() -> None:
    """It is told before anything is run, and not again with every report."""
    store, plan = Store(), Planned(runs=(), expected_s=3.0)
    reporter = Reporter(store.write, clock=lambda: 0.0)
    for line in (plan, progress(0.1)):
        reporter.take(line)
        reporter.flush()

    assert store.plans == [plan]


def test_what_can_never_be_written_is_dropped() -> None:
    """A report that the database refuses does not stand in the way of the next."""
    store = Store()
    reporter = Reporter(store.write, clock=lambda: 0.0)
    store.error = UnstorableValueError("NUL")
    reporter.take(progress(0.5))
    reporter.flush()
    store.error = None
    reporter.take(progress(0.6))
    reporter.flush()

    assert store.written == [(progress(0.6), [], 0)]


def test_nothing_new_is_not_written() -> None:
    """Silence costs no transaction."""
    store = Store()
    reporter = Reporter(store.write, clock=lambda: 0.0)

    reporter.flush()

    assert store.written == []
