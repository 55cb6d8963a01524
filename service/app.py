"""Composition root of the web process: here, and only here, the real parts are chosen."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version

import anyio.to_thread
from litestar import Litestar, Router
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp
from prometheus_client import disable_created_metrics
from sqlalchemy import Engine

from service.access.hosts import access_for
from service.api.application import Lifespan, make_application
from service.api.http.auth import Access, Guard, Tokens
from service.api.http.dependencies import Parts
from service.api.http.rate_limits import quota_of, rate_of
from service.api.metrics.registry import Build, Metrics
from service.api.resources import (
    accuracy,
    calibrations,
    ceilings,
    clusters,
    fit,
    gpus,
    how_many,
    keys,
    models,
    operations,
    plans,
    reservations,
    workers,
)
from service.api.resources.measurements import jobs as measurements
from service.api.resources.measurements import withdrawals
from service.base.errors import StartupError
from service.catalog import models as catalogue
from service.db.migrate import head_revision
from service.db.session import make_engine, make_sessions
from service.estimator.estimate import PlanCache
from service.jobs.notify import BackgroundBell, Bell, connect_to_ring, no_bell
from service.runtime.settings import Settings
from service.telemetry import spans
from service.usecases.access import keys as stored_keys
from service.usecases.access.keys import KeyBook
from service.usecases.access.rate_limits import make_throttle
from service.usecases.jobs.environments import running_environments
from service.usecases.learning import calibrations as stored_calibrations
from service.usecases.learning.accuracy import learnt
from service.usecases.learning.corrections import CorrectionBook
from service.usecases.learning.shipped_priors import shipped_members
from service.usecases.operations.health import check
from service.usecases.operations.metrics_snapshot import Registrar, Slow, take_census
from service.usecases.operations.refresh import Refresher
from service.usecases.stored import Sessions
from service.usecases.stored_specs import models as stored_models
from service.usecases.stored_specs.spec_cache import SpecBook, catalogue_model, stored_model
from service.web import pages

REFRESH_INTERVAL_S = 1.0
FIRST_REFRESH_S = 2.0
"""How long a process waits for keys and calibrations before it answers; a database that is away holds no start up longer."""
ROUTERS: tuple[Router | HTTPRouteHandler, ...] = (
    models.router,
    gpus.router,
    clusters.router,
    reservations.router,
    fit.router,
    how_many.router,
    plans.router,
    ceilings.router,
    measurements.router,
    withdrawals.router,
    workers.router,
    calibrations.router,
    accuracy.router,
    keys.router,
    keys.audit,
    *operations.handlers,
    pages.router,
)


def create_app(settings: Settings) -> ASGIApp:
    """Return the web application; it connects to nothing before it is asked or started."""
    engine = make_engine(settings.require_database_url(), application_name="headroom-api", pool_size=settings.pool_size)
    sessions = make_sessions(engine)
    # When a counter began tells nothing that its process's start does not, and doubles the series.
    disable_created_metrics()  # type: ignore[no-untyped-call]  # the library annotates half of itself
    build = Build(version=version("gpu-headroom"), schema=head_revision() or "")
    metrics = Metrics(build=build, shared_dir=settings.metrics_dir)
    bell = _bell(settings, on_failure=metrics.count_failed_ring)
    ping_redis = None if bell is None else bell.ping
    specs = _specs(sessions)
    corrections = CorrectionBook(
        read_changed=partial(stored_calibrations.changed_since, sessions),
        read_environments=partial(running_environments, sessions, gone_after_s=settings.lease_s),
        shipped=shipped_members,
    )
    book = KeyBook(read_keys=partial(stored_keys.read_live, sessions), note_use=partial(stored_keys.note_use, sessions))
    throttle = make_throttle(settings.redis_url)
    tokens = _tokens(settings)
    parts = Parts(
        settings=settings,
        version=build.version,
        sessions=sessions,
        ring=no_bell if bell is None else bell.ring,
        specs=specs,
        corrections=corrections,
        plans=PlanCache(),
        metrics=metrics,
        read_servers=Registrar(
            partial(take_census, sessions, gone_after_s=settings.lease_s, learnt=Slow(partial(learnt, sessions))),
            ping_redis=ping_redis,
        ).read,
        readiness=partial(check, engine, ping_redis=ping_redis),
        guard=Guard(
            Access(settings.access or access_for(settings.host)),
            find=book.find,
            throttle=rate_of(throttle),
            tokens=tokens,
        ),
        charge=quota_of(throttle),
        refresh_keys=book.refresh,
        write_down=partial(stored_keys.write_down, sessions),
    )
    refresher = Refresher((book.refresh, specs.refresh, corrections.refresh), interval_s=REFRESH_INTERVAL_S)
    refreshers = [refresher]
    if tokens is not None:
        # An issuer that hangs must not keep the keys from being read.
        refreshers.append(Refresher((tokens.refresh,), interval_s=REFRESH_INTERVAL_S))
    return make_application(parts, handlers=ROUTERS, lifespan=(_lifespan(refreshers, bell, engine),))


def _bell(settings: Settings, *, on_failure: Callable[[], None]) -> BackgroundBell | None:
    if settings.redis_url is None:
        return None
    connection = connect_to_ring(settings.redis_url)
    return BackgroundBell(Bell(connection, job_timeout_s=settings.probe_deadline_s + 30, on_failure=on_failure))


def _tokens(settings: Settings) -> Tokens | None:
    if settings.oidc_issuer is None or settings.oidc_audience is None:
        return None
    try:
        from service.usecases.access.tokens import make_tokens  # noqa: PLC0415 - what it needs is an extra
    except ModuleNotFoundError as error:
        message = f"HEADROOM_OIDC_ISSUER is set, and {error.name} is not installed: pip install 'gpu-headroom[oidc]'"
        raise StartupError(message) from error
    return make_tokens(settings, issuer=settings.oidc_issuer, audience=settings.oidc_audience)


def _specs(sessions: Sessions) -> SpecBook:
    return SpecBook(
        read_catalogue=catalogue_model,
        read_stored=partial(stored_model, sessions),
        read_versions=partial(stored_models.versions, sessions),
        known_names=catalogue.model_names,
    )


def _lifespan(refreshers: Sequence[Refresher], bell: BackgroundBell | None, engine: Engine) -> Lifespan:
    @asynccontextmanager
    async def lifespan(_app: Litestar) -> AsyncIterator[None]:
        for refresher in refreshers:
            refresher.start()
        # Who is sent here by a balancer at once holds a key, and this process must know it by then.
        await anyio.to_thread.run_sync(refreshers[0].wait_for_first, FIRST_REFRESH_S)
        try:
            yield
        finally:
            for refresher in refreshers:
                refresher.stop()
            if bell is not None:
                bell.close()
            engine.dispose()
            # A signal that ends this process leaves it no other moment to send what it has.
            spans.stop()

    return lifespan
