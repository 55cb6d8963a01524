"""Builders for tests of the API: an application over fakes, with no database behind it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from litestar.testing import TestClient
from sqlalchemy import create_engine

from service.api.application import Extension, make_application
from service.api.http.dependencies import Dependencies
from service.api.metrics.registry import Metrics
from service.api.resources.fit import FAST_ROUTE
from service.app import ROUTERS
from service.catalog.models import list_model_names
from service.db.session import make_sessions
from service.estimator.cache import PlanCache
from service.jobs.notify import skip_notification
from service.runtime.settings import Settings
from service.usecases.learning.corrections import CorrectionCache
from service.usecases.operations.health import Readiness
from service.usecases.stored_specs.spec_cache import SpecCache, load_catalogue_model

NOWHERE = "postgresql+psycopg://nobody@127.0.0.1:1/nothing?connect_timeout=1"
FIT: dict[str, Any] = {
    "model": "llama-2-7b",
    "workload": {"task": "train", "sequence_length": 4096},
    "gpu": "A100-SXM4-80GB",
}


def parts(readiness: Readiness | None = None) -> Dependencies:
    """Return parts that know the catalogue and nothing else; whoever asks their database is
    refused.
    """
    return Dependencies(
        settings=Settings(),
        version="1.2.3",
        sessions=make_sessions(create_engine(NOWHERE)),
        notify=skip_notification,
        specs=SpecCache(
            read_catalogue=load_catalogue_model,
            read_stored=lambda _name: None,
            read_versions=lambda _names: {},
            known_names=list_model_names,
        ),
        corrections=CorrectionCache(read_changed=lambda _since: ()),
        plans=PlanCache(),
        metrics=Metrics(),
        readiness=lambda: readiness or Readiness(database="ok", redis="not_configured"),
    )


def patient_parts(**settings: Any) -> Dependencies:  # noqa: ANN401 - of any setting
    """Return parts whose hooks wait for their answers.

    A machine that is busy with other tests is no reason to say nothing.
    """
    made = parts()
    patient = replace(made.settings, hook_deadline_s=120.0, hook_search_s=120.0, **settings)
    return replace(made, settings=patient)


@contextmanager
def served(
    with_parts: Dependencies | None = None, *, extension: Extension | None = None
) -> Iterator[TestClient[Any]]:
    """Serve the whole API over fakes."""
    application = make_application(
        with_parts or parts(), handlers=ROUTERS, fast_route=FAST_ROUTE, extension=extension
    )
    with TestClient(application, raise_server_exceptions=False) as client:
        yield client


def changed(path: str, value: object, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a good fit request with the value at a dotted path replaced or added."""
    copy: dict[str, Any] = {**(FIT if body is None else body)}
    name, _, rest = path.partition(".")
    inner = copy.get(name)
    copy[name] = changed(rest, value, inner if isinstance(inner, dict) else {}) if rest else value
    return copy
