"""Dependencies of the handlers, made once by the composition root."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from anyio import CapacityLimiter
from litestar import Request
from litestar.types import HTTPScope

from service.access.keys import Principal
from service.api.computing.reading import FileReader
from service.api.computing.search_processes import SearchProcesses
from service.api.computing.single_flight import SingleFlight
from service.api.computing.streams import OpenStreams
from service.api.computing.turns import Turns
from service.api.http.auth import Guard, make_open_guard
from service.api.metrics.registry import Metrics
from service.catalog.models import forget_architectures
from service.estimator.cache import PlanCache
from service.estimator.values.memo import forget_latest
from service.jobs.notify import Notify
from service.runtime.settings import Settings
from service.usecases.access.keys import AuditEvent
from service.usecases.clusters.names import ClusterNames
from service.usecases.hooks.log import HookDecision
from service.usecases.hooks.way_out import WayOuts
from service.usecases.hub.hub import Hub
from service.usecases.learning.corrections import CorrectionCache
from service.usecases.operations.health import Readiness
from service.usecases.operations.metrics_snapshot import NO_READING, MetricsReading
from service.usecases.questions.answer_cache import (
    MAX_SEARCH_BYTES,
    AnswerCache,
    FinishedAnswer,
)
from service.usecases.questions.evaluators import EvaluatorCache
from service.usecases.questions.fit import AnsweredQuestions
from service.usecases.recordings.configs import Config
from service.usecases.recordings.recorder import StaticPart
from service.usecases.stored import Sessions
from service.usecases.stored_specs.spec_cache import SpecCache

_HOOKS = 2
OTHER_TURNS = _HOOKS + 6
"""Turns beside those at searches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies:
    """Dependencies of one web process."""

    settings: Settings
    version: str
    sessions: Sessions
    notify: Notify
    specs: SpecCache
    corrections: CorrectionCache
    plans: PlanCache
    metrics: Metrics
    readiness: Callable[[], Readiness]
    answered_questions: AnsweredQuestions = field(default_factory=AnsweredQuestions)
    answers: AnswerCache = field(default_factory=AnswerCache)
    search_answers: AnswerCache = field(
        default_factory=lambda: AnswerCache(max_bytes=MAX_SEARCH_BYTES)
    )
    """Answers of searches, which displace none of the fits that somebody repeats."""
    searches_under_way: SingleFlight[HTTPScope, FinishedAnswer] = field(
        default_factory=SingleFlight
    )
    """Searches that are computed now, for whoever asks the same meanwhile."""
    evaluators: EvaluatorCache = field(default_factory=EvaluatorCache)
    first_answer_turns: Turns = field(default_factory=lambda: Turns(1))
    """Turns at computing first answers: one at a time. Threads only take turns, and each more makes
    the event loop wait.
    """
    first_remedy_turns: Turns = field(default_factory=lambda: Turns(1))
    """Turns at searching remedies for the first time, up to seconds for which no first answer
    waits.
    """
    remedy_turns: Turns = field(default_factory=lambda: Turns(1))
    """Turns at searching remedies where they were searched before. That is ten times as quick as
    the first time, so it never waits behind one.
    """
    search_turns: Turns = field(default_factory=lambda: Turns(Settings().num_searches))
    """Turns at plans, ceilings and numbers of GPUs."""
    cluster_turns: Turns = field(default_factory=lambda: Turns(1))
    """Turns at building the nodes of clusters to plan on, which wait behind no search: it may be
    kept. Their rows have been read before: a database that is slow holds no turn.
    """
    batch_turns: Turns = field(default_factory=lambda: Turns(1))
    """Turns at slices of batches, which wait behind no search."""
    hook_turns: Turns = field(default_factory=lambda: Turns(_HOOKS))
    """Turns at decisions about submitted jobs, whose schedulers wait for them."""
    way_outs: WayOuts = field(default_factory=WayOuts)
    """Searches for what would hold a job that does not fit."""
    import_turns: Turns = field(default_factory=lambda: Turns(1))
    """Turns at reading files of measurements and inventories."""
    searches: SearchProcesses = field(default_factory=SearchProcesses)
    """Processes that compute plans, ceilings and numbers of GPUs."""
    files: FileReader = field(default_factory=FileReader)
    """Reader of these files."""
    event_streams: OpenStreams = field(default_factory=OpenStreams)
    """Event streams that clients of this process follow."""
    computing_limiter: CapacityLimiter = field(
        default_factory=lambda: CapacityLimiter(Settings().num_searches + OTHER_TURNS)
    )
    """Threads for what those turns let in."""
    count_weights: Callable[[Config], StaticPart | None] = lambda _config: None
    """Counter of the weights of a config that is to be recorded; None where a worker counts them.
    """
    hub: Hub = field(default_factory=lambda: Hub(None))
    """Reader of models on a hub; without an operator's word it refuses all."""
    hub_limiter: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(8))
    """Limit of questions that wait for a hub, beside which all others are answered."""
    cluster_names: ClusterNames = field(default_factory=lambda: ClusterNames(lambda _name: False))
    """Names of stored clusters that questions may name."""
    guard: Guard = field(default_factory=make_open_guard)
    refresh_keys: Callable[[], None] = lambda: None
    charge_rate: Callable[[Principal, int], None] = lambda _principal, _number: None
    """Counts a long answer as further requests against a rate."""
    read_snapshot: Callable[[], MetricsReading] = lambda: NO_READING
    record_change: Callable[[AuditEvent], None] = lambda _event: None
    record_decision: Callable[[HookDecision], None] = lambda _decision: None

    def forget(self) -> None:
        """Forget what answers to come would rest on; any thread may."""
        # First: what counts as answered is answered on the event loop.
        self.answered_questions.clear()
        self.plans.clear()
        self.evaluators.clear()
        self.specs.clear()
        forget_architectures()
        forget_latest()


def get_dependencies(request: Request[Any, Any, Any]) -> Dependencies:
    """Return the dependencies of the process that answers this request."""
    deps: Dependencies = request.app.state.parts
    return deps
