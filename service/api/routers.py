"""Every route of the API, in the order of its documentation."""

from litestar import Router
from litestar.handlers import HTTPRouteHandler

from service.api.resources import (
    accuracy,
    calibrations,
    ceilings,
    explain,
    families,
    fit,
    gpus,
    how_many,
    keys,
    models,
    operations,
    pipelines,
    plans,
    workers,
)
from service.api.resources.clusters import inventories as clusters
from service.api.resources.clusters import reservations
from service.api.resources.formats import renderings
from service.api.resources.hooks import decisions as hook_decisions
from service.api.resources.hooks import dstack as dstack_hook
from service.api.resources.hooks import extenders
from service.api.resources.hooks import kubernetes as kubernetes_hook
from service.api.resources.hooks import kueue as kueue_hook
from service.api.resources.hooks import skypilot as skypilot_hook
from service.api.resources.hooks import slurm as slurm_hook
from service.api.resources.imports import launches
from service.api.resources.measurements import field_data, withdrawals
from service.api.resources.measurements import jobs as measurements

HOOKS: tuple[Router | HTTPRouteHandler, ...] = (
    kubernetes_hook.router,
    skypilot_hook.router,
    slurm_hook.router,
    dstack_hook.router,
    extenders.router,
    kueue_hook.router,
)
ROUTERS: tuple[Router | HTTPRouteHandler, ...] = (
    models.router,
    gpus.router,
    families.router,
    pipelines.router,
    clusters.router,
    reservations.router,
    fit.router,
    how_many.router,
    plans.router,
    renderings.router,
    ceilings.router,
    launches.router,
    explain.router,
    *HOOKS,
    hook_decisions.router,
    measurements.router,
    withdrawals.router,
    field_data.router,
    workers.router,
    calibrations.router,
    accuracy.router,
    keys.router,
    keys.audit,
    *operations.handlers,
)
HOOK_ROUTERS: tuple[Router | HTTPRouteHandler, ...] = (
    *HOOKS,
    operations.health,
    operations.ready,
    operations.metrics,
)
"""Handlers of a port that is open to schedulers, and has nothing else to be open about."""
