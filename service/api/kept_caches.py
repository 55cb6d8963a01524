"""Caches of a process, by their names in metrics."""

from collections.abc import Mapping

from service.api.http.dependencies import Dependencies
from service.estimator.values.memo import Memo, list_keeping_functions, list_latest
from service.usecases.operations.weighing import Cache

_MODELS, _FUNCTION_VALUES = 4, 64
"""Values of a sample: models are large, what functions keep is of many kinds."""


def list_caches(deps: Dependencies) -> Mapping[str, Cache]:
    """Return everything that is emptied where a process has grown too large."""
    specs, evaluators = deps.specs, deps.evaluators
    return {
        "catalogue": Cache(
            count=lambda: len(specs.list_kept()),
            list_values=specs.list_kept,
            but=(),
            sample=_MODELS,
        ),
        "evaluators": Cache(
            count=lambda: len(evaluators.list_kept()), list_values=evaluators.list_kept
        ),
        "functions": Cache(
            count=lambda: sum(
                function.cache_info().currsize for function in list_keeping_functions()
            ),
            list_values=list_latest,
            sample=_FUNCTION_VALUES,
        ),
        **{name: _look_at(memo) for name, memo in deps.plans.list_memos().items()},
    }


def _look_at(memo: Memo[object]) -> Cache:
    return Cache(count=memo.__len__, list_values=memo.list_items)
