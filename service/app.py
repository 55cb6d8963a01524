"""Composition root of the web process.

Here, and only here, the real dependencies are chosen.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec

import anyio.to_thread
from anyio import CapacityLimiter
from litestar import Litestar, Router
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp
from prometheus_client import disable_created_metrics
from sqlalchemy import Engine

from service.access.hosts import get_default_access
from service.access.origins import KnownNames
from service.access.peers import PeerCache
from service.api.application import Extension, Lifespan, make_application
from service.api.computing.reading import FileReader
from service.api.computing.search_processes import SearchProcesses
from service.api.computing.shares import make_pools, share_file_memory, share_search_memory
from service.api.computing.turns import Turns
from service.api.http.auth import Access, Guard, TokenVerifier
from service.api.http.dependencies import OTHER_TURNS, Dependencies
from service.api.http.rate_limits import make_rate_charge, make_rate_throttle
from service.api.kept_caches import list_caches
from service.api.metrics.registry import BuildInfo, Metrics
from service.api.recording_lifespans import make_recording_lifespans
from service.api.resources import fit
from service.api.routers import HOOK_ROUTERS
from service.api.routers import ROUTERS as API_ROUTERS
from service.base.startup_errors import StartupError
from service.catalog import models as catalogue
from service.db.migrate import get_head_revision
from service.db.session import make_engine, make_sessions
from service.estimator.cache import PlanCache
from service.jobs.notify import BackgroundNotifier, Notifier, connect_to_notify, skip_notification
from service.runtime.children.pool import ChildPool
from service.runtime.recording_files import make_recording_store
from service.runtime.settings import Settings
from service.telemetry import spans
from service.usecases.access import keys as stored_keys
from service.usecases.access.keys import KeyCache
from service.usecases.access.rate_limits import Throttle, make_throttle
from service.usecases.clusters.names import ClusterNames, is_cluster_stored
from service.usecases.hooks.log import DecisionLog
from service.usecases.hooks.way_out import WayOuts
from service.usecases.hub.hub import make_hub
from service.usecases.jobs.environments import list_running_environments
from service.usecases.learning import calibrations as stored_calibrations
from service.usecases.learning.accuracy import read_learning_statistics
from service.usecases.learning.corrections import CorrectionCache
from service.usecases.learning.shipped_priors import load_shipped_members
from service.usecases.operations.health import check_readiness
from service.usecases.operations.kept_memory import KeptMemory
from service.usecases.operations.metrics_snapshot import (
    BackgroundReader,
    MetricsCache,
    take_metrics_snapshot,
)
from service.usecases.operations.refresh import Refresher
from service.usecases.operations.weighing import CacheScales
from service.usecases.recordings.counting import WeightCounter
from service.usecases.stored import Sessions
from service.usecases.stored_specs import models as stored_models
from service.usecases.stored_specs.spec_cache import (
    SpecCache,
    load_catalogue_model,
    load_stored_model,
)
from service.web import pages

REFRESH_INTERVAL_S = 1.0
FIRST_REFRESH_S = 2.0
"""How long a process waits for keys and calibrations before it answers; a database that is away
holds no start up longer.
"""
ROUTERS: tuple[Router | HTTPRouteHandler, ...] = (*API_ROUTERS, pages.router)


def create_app(settings: Settings) -> ASGIApp:
    """Return the web application.

    It connects to nothing before it is asked or started.
    """
    engine = _make_engine(settings)
    sessions = make_sessions(engine)
    # The series that say when a counter began double their number, and its process's start says it.
    disable_created_metrics()  # type: ignore[no-untyped-call]  # the library annotates half of itself
    build = BuildInfo(version=version("gpu-headroom"), schema=get_head_revision() or "")
    metrics = Metrics(build=build, shared_dir=settings.metrics_dir)
    notifier = _make_notifier(settings, on_failure=metrics.count_failed_notification)
    ping_redis = None if notifier is None else notifier.ping
    specs = _make_specs(sessions)
    corrections = _make_corrections(sessions, gone_after_s=settings.lease_s)
    cluster_names = ClusterNames(partial(is_cluster_stored, sessions))
    key_cache = _make_key_cache(sessions)
    throttle = make_throttle(settings.redis_url)
    tokens = _make_token_verifier(settings)
    decisions = DecisionLog(sessions, on_loss=metrics.count_lost_decisions)
    files, searches = make_pools()
    deps = Dependencies(
        settings=settings,
        version=build.version,
        sessions=sessions,
        notify=skip_notification if notifier is None else notifier.notify,
        specs=specs,
        corrections=corrections,
        cluster_names=cluster_names,
        plans=PlanCache(store=make_recording_store(settings.cache_dir)),
        metrics=metrics,
        read_snapshot=_make_metrics_cache(
            sessions, gone_after_s=settings.lease_s, ping_redis=ping_redis
        ).read,
        readiness=partial(check_readiness, engine, ping_redis=ping_redis),
        guard=_make_guard(settings, key_cache, throttle, tokens),
        searches=_make_searches(settings, metrics, searches),
        search_turns=Turns(settings.num_searches),
        computing_limiter=CapacityLimiter(settings.num_searches + OTHER_TURNS),
        files=FileReader(files, most_memory_bytes=share_file_memory()),
        hub=make_hub(settings),
        count_weights=WeightCounter(),
        charge_rate=make_rate_charge(throttle),
        refresh_keys=key_cache.refresh,
        record_change=partial(stored_keys.record_change, sessions),
        record_decision=decisions.add,
    )
    tasks = key_cache.refresh, specs.refresh, corrections.refresh, cluster_names.refresh
    refreshers = _make_refreshers(tasks, deps, flush=decisions.flush, tokens=tokens)
    only_hooks = settings.only_hooks
    return make_application(
        deps,
        handlers=HOOK_ROUTERS if only_hooks else ROUTERS,
        fast_route=None if only_hooks else fit.FAST_ROUTE,
        extension=None if only_hooks else _make_mcp_endpoint(deps),
        lifespan=(
            _make_lifespan(refreshers, notifier, engine, (files, searches), deps.way_outs),
            *make_recording_lifespans(settings.cache_dir),
        ),
    )


def _make_mcp_endpoint(deps: Dependencies) -> Extension | None:
    """Return the endpoint of MCP, where its SDK is installed."""
    if find_spec("mcp") is None:
        return None
    from service.mcp.endpoint import McpEndpoint  # noqa: PLC0415 - what it needs is an extra

    return McpEndpoint(deps.guard, version=deps.version)


def _make_engine(settings: Settings) -> Engine:
    url, pool_size = settings.require_database_url(), settings.pool_size
    return make_engine(url, application_name="headroom-api", pool_size=pool_size)


def _make_searches(settings: Settings, metrics: Metrics, pool: ChildPool) -> SearchProcesses:
    return SearchProcesses(
        pool if settings.search_processes else None,
        memory_bytes=share_search_memory(),
        cache_dir=settings.cache_dir,
        on_failure=metrics.count_failed_search_process,
    )


def _make_guard(
    settings: Settings, key_cache: KeyCache, throttle: Throttle, tokens: TokenVerifier | None
) -> Guard:
    return Guard(
        Access(settings.access or get_default_access(settings.host)),
        find=key_cache.find,
        throttle=make_rate_throttle(throttle),
        tokens=tokens,
        find_uid=PeerCache().get,
        names=KnownNames(settings.allowed_hosts, public_url=settings.public_url),
    )


def _make_notifier(
    settings: Settings, *, on_failure: Callable[[], None]
) -> BackgroundNotifier | None:
    if settings.redis_url is None:
        return None
    connection = connect_to_notify(settings.redis_url)
    return BackgroundNotifier(
        Notifier(connection, job_timeout_s=settings.job_deadline_s + 30, on_failure=on_failure)
    )


def _make_token_verifier(settings: Settings) -> TokenVerifier | None:
    if settings.oidc_issuer is None or settings.oidc_audience is None:
        return None
    try:
        from service.usecases.access.tokens import make_token_cache  # noqa: PLC0415 - what it needs is an extra
    except ModuleNotFoundError as error:
        message = (
            f"HEADROOM_OIDC_ISSUER is set, and {error.name} is not installed: pip install "
            "'gpu-headroom[oidc]'"
        )
        raise StartupError(message) from error
    return make_token_cache(settings, issuer=settings.oidc_issuer, audience=settings.oidc_audience)


def _make_specs(sessions: Sessions) -> SpecCache:
    return SpecCache(
        read_catalogue=load_catalogue_model,
        read_stored=partial(load_stored_model, sessions),
        read_versions=partial(stored_models.read_versions, sessions),
        known_names=catalogue.list_model_names,
    )


def _make_corrections(sessions: Sessions, *, gone_after_s: float) -> CorrectionCache:
    return CorrectionCache(
        read_changed=partial(stored_calibrations.list_changed_since, sessions),
        read_environments=partial(list_running_environments, sessions, gone_after_s=gone_after_s),
        shipped=load_shipped_members,
    )


def _make_key_cache(sessions: Sessions) -> KeyCache:
    return KeyCache(
        read_keys=partial(stored_keys.read_live_keys, sessions),
        record_use=partial(stored_keys.record_use, sessions),
    )


def _make_metrics_cache(
    sessions: Sessions, *, gone_after_s: float, ping_redis: Callable[[], bool] | None
) -> MetricsCache:
    learnt = BackgroundReader(partial(read_learning_statistics, sessions))
    return MetricsCache(
        partial(take_metrics_snapshot, sessions, gone_after_s=gone_after_s, learnt=learnt),
        ping_redis=ping_redis,
    )


def _make_refreshers(
    tasks: Sequence[Callable[[], None]],
    deps: Dependencies,
    *,
    flush: Callable[[], None],
    tokens: TokenVerifier | None,
) -> list[Refresher]:
    memory = KeptMemory(
        deps.forget,
        on_count=deps.metrics.set_resident_bytes,
        on_empty=deps.metrics.count_emptied_caches,
    )
    scales = CacheScales(partial(list_caches, deps), on_weighed=deps.metrics.set_cache)
    refreshers = [
        Refresher(tasks, interval_s=REFRESH_INTERVAL_S),
        Refresher((flush,), interval_s=REFRESH_INTERVAL_S, runs_at_end=True),
        Refresher((memory.check, scales.weigh_next), interval_s=REFRESH_INTERVAL_S),
    ]
    if tokens is not None:
        # An issuer that hangs must not keep the keys from being read.
        refreshers.append(Refresher((tokens.refresh,), interval_s=REFRESH_INTERVAL_S))
    return refreshers


def _make_lifespan(
    refreshers: Sequence[Refresher],
    notifier: BackgroundNotifier | None,
    engine: Engine,
    pools: Sequence[ChildPool],
    way_outs: WayOuts,
) -> Lifespan:
    @asynccontextmanager
    async def lifespan(_app: Litestar) -> AsyncIterator[None]:
        for refresher in refreshers:
            refresher.start()
        # Who is sent here by a balancer at once holds a key, and this process must know it by then.
        await anyio.to_thread.run_sync(refreshers[0].wait_for_first, FIRST_REFRESH_S)
        try:
            yield
        finally:
            way_outs.stop()
            for refresher in refreshers:
                refresher.stop()
            if notifier is not None:
                notifier.close()
            for pool in pools:
                await anyio.to_thread.run_sync(pool.close)
            engine.dispose()
            # A signal that ends this process leaves it no other moment to send what it has.
            spans.stop()

    return lifespan
