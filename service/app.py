"""Composition root of the web process: here, and only here, the real parts are chosen."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version

from litestar import Litestar, Router
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp
from sqlalchemy import Engine

from service.access.hosts import access_for
from service.api import (
    accuracy,
    calibrations,
    ceilings,
    clusters,
    fit,
    gpus,
    how_many,
    keys,
    measurements,
    models,
    operations,
    plans,
    reservations,
    withdrawals,
    workers,
)
from service.api.application import Lifespan, make_application
from service.api.guard import Access, Guard
from service.api.limits import quota_of, rate_of
from service.api.metrics import Census, Metrics
from service.api.parts import Parts
from service.catalog import models as catalogue
from service.db.session import make_engine, make_sessions
from service.errors import ServiceError
from service.estimator.estimate import PlanCache
from service.jobs.bell import BackgroundBell, Bell, connect_to_ring, no_bell
from service.settings import Settings
from service.usecases import calibrations as stored_calibrations
from service.usecases import keys as stored_keys
from service.usecases import models as stored_models
from service.usecases.access import Sessions
from service.usecases.accuracy import learnt
from service.usecases.corrections import CorrectionBook
from service.usecases.environments import running_environments
from service.usecases.health import check
from service.usecases.keys import KeyBook
from service.usecases.load import read_load
from service.usecases.measurements import count_by_status
from service.usecases.refresh import Refresher
from service.usecases.shipped import shipped_members
from service.usecases.specs import SpecBook, catalogue_model, stored_model
from service.usecases.throttle import make_throttle
from service.usecases.workers import list_workers
from service.web import pages

REFRESH_INTERVAL_S = 1.0
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
    bell = _bell(settings)
    specs = _specs(sessions)
    corrections = CorrectionBook(
        read_changed=partial(stored_calibrations.changed_since, sessions),
        read_environments=partial(running_environments, sessions, gone_after_s=settings.lease_s),
        shipped=shipped_members,
    )
    book = KeyBook(read_keys=partial(stored_keys.read_live, sessions), note_use=partial(stored_keys.note_use, sessions))
    throttle = make_throttle(settings.redis_url)
    parts = Parts(
        settings=settings,
        version=version("gpu-headroom"),
        sessions=sessions,
        ring=no_bell if bell is None else bell.ring,
        specs=specs,
        corrections=corrections,
        plans=PlanCache(),
        metrics=Metrics(
            take_census=partial(_take_census, sessions, settings),
            doorbell_failures=lambda: 0 if bell is None else bell.failures,
        ),
        readiness=partial(check, engine, ping_redis=None if bell is None else bell.ping),
        guard=Guard(
            Access(settings.access or access_for(settings.host)),
            find=book.find,
            throttle=rate_of(throttle),
        ),
        charge=quota_of(throttle),
        refresh_keys=book.refresh,
        write_down=partial(stored_keys.write_down, sessions),
    )
    refresher = Refresher((book.refresh, specs.refresh, corrections.refresh), interval_s=REFRESH_INTERVAL_S)
    return make_application(parts, handlers=ROUTERS, lifespan=(_lifespan(refresher, bell, engine),))


def _bell(settings: Settings) -> BackgroundBell | None:
    if settings.redis_url is None:
        return None
    return BackgroundBell(Bell(connect_to_ring(settings.redis_url), job_timeout_s=settings.probe_deadline_s + 30))


def _specs(sessions: Sessions) -> SpecBook:
    return SpecBook(
        read_catalogue=catalogue_model,
        read_stored=partial(stored_model, sessions),
        read_versions=partial(stored_models.versions, sessions),
        known_names=catalogue.model_names,
    )


def _take_census(sessions: Sessions, settings: Settings) -> Census | None:
    try:
        return Census(
            jobs={status.value: count for status, count in count_by_status(sessions).items()},
            workers=Counter(worker.state.value for worker in list_workers(sessions, gone_after_s=settings.lease_s)),
            load=read_load(sessions),
            learnt=learnt(sessions),
        )
    except ServiceError:
        return None


def _lifespan(refresher: Refresher, bell: BackgroundBell | None, engine: Engine) -> Lifespan:
    @asynccontextmanager
    async def lifespan(_app: Litestar) -> AsyncIterator[None]:
        refresher.start()
        try:
            yield
        finally:
            refresher.stop()
            if bell is not None:
                bell.close()
            engine.dispose()

    return lifespan
