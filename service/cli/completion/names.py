"""Names and words that a shell's completion offers as values of arguments."""

from collections.abc import Callable, Mapping, Sequence

from service.catalog.gpus import list_gpus
from service.catalog.models import list_all_models
from service.cli.flags import list_choices
from service.estimator.model.families.registry import list_model_types


def list_values(command: str, argument: str) -> Sequence[str]:
    """Return the values of a command's argument.

    There are none where they cannot be listed.
    """
    source = _SOURCES.get(f"{command} {argument}") or _SOURCES.get(argument)
    return list_choices().get(argument, ()) if source is None else source()


def _list_models() -> Sequence[str]:
    return [name for entry in list_all_models() for name in (entry.name, *entry.aliases)]


def _list_gpus() -> Sequence[str]:
    return [entry.name for entry in list_gpus()]


_SOURCES: Mapping[str, Callable[[], Sequence[str]]] = {
    "model": _list_models,
    "models name": _list_models,
    "workload.speculative.draft": _list_models,
    "gpu": _list_gpus,
    "gpus name": _list_gpus,
    "plan gpus": _list_gpus,
    "families name": list_model_types,
    "accuracy family": list_model_types,
}
"""Lists of names, by the command and the argument or by the argument alone."""
