"""Models that vLLM has dropped, by the last release that has them."""

from collections.abc import Mapping
from types import MappingProxyType

from service.estimator.rules.grammar.conditions import satisfies
from service.estimator.rules.grammar.facts import Case
from service.estimator.rules.grammar.fields import model, workload
from service.estimator.rules.grammar.rule import Rule, Topic, invalid
from service.estimator.rules.predicates.models import get_serving
from service.estimator.values.engine_versions import Version, parse_version
from service.estimator.values.errors import InvalidInputError

_LAST: Mapping[str, Version] = MappingProxyType({"bamba": Version(0, 23), "mpt": Version(0, 28)})


def _has_model(case: Case) -> bool:
    """Return whether the requested release has a model.

    The newest has none of these.
    """
    last, version = _LAST.get(case.model.family), get_serving(case).engine_version
    if last is None:
        return True
    try:
        requested = None if version is None else parse_version(version)
    except InvalidInputError:
        return True
    return requested is not None and (requested.major, requested.minor) <= (last.major, last.minor)


def _refuse(case: Case) -> str:
    last = _LAST[case.model.family]
    return (
        f"vLLM dropped {case.model.family} after {last.major}.{last.minor}: say engine_version "
        f"{last}, or engine transformers"
    )


REMOVED_MODELS = Rule(
    require=satisfies(_has_model, model.family, workload.engine_version),
    field="workload.engine_version",
    topic=Topic.MODEL,
    refusal=invalid(_refuse),
    reason="vLLM dropped {model.family}",
    source="vLLM 0.33.0, model_executor/models/registry.py, models that were supported before",
)
"""What is asked of a model that was served once."""
