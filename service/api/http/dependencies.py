"""What the handlers work with, made once by the composition root."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from anyio import CapacityLimiter
from litestar import Request

from service.access.keys import Principal
from service.api.http.auth import Guard, open_guard
from service.api.metrics.registry import Metrics
from service.estimator.estimate import PlanCache
from service.jobs.notify import Ring
from service.runtime.settings import Settings
from service.usecases.access.keys import AuditEvent
from service.usecases.learning.corrections import CorrectionBook
from service.usecases.operations.health import Readiness
from service.usecases.operations.metrics_snapshot import NOTHING_READ, Reading
from service.usecases.questions.fit import Answered
from service.usecases.stored import Sessions
from service.usecases.stored_specs.spec_cache import SpecBook


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of one web process."""

    settings: Settings
    version: str
    sessions: Sessions
    ring: Ring
    specs: SpecBook
    corrections: CorrectionBook
    plans: PlanCache
    metrics: Metrics
    readiness: Callable[[], Readiness]
    answered: Answered = field(default_factory=Answered)
    recording: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(1))
    """Who computes a first answer: one at a time, since threads only take turns, and each more makes the event loop wait."""
    helping: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(1))
    """Who looks for what would help where it was found before: ten times as quick, so never behind first answers."""
    guard: Guard = field(default_factory=open_guard)
    refresh_keys: Callable[[], None] = lambda: None
    charge: Callable[[Principal, int], None] = lambda _principal, _number: None
    read_servers: Callable[[], Reading] = lambda: NOTHING_READ
    write_down: Callable[[AuditEvent], None] = lambda _event: None


def parts_of(request: Request[Any, Any, Any]) -> Parts:
    """Return the parts of the process that answers this request."""
    parts: Parts = request.app.state.parts
    return parts
