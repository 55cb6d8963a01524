"""Questions that differ from one in a word."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import chain
from typing import Any

from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Workload

Words = dict[str, Any]
Choices = Mapping[str, Sequence[object]]


def vary_base(
    plain: Workload, asked: Words, laid_out: Words, words: Choices, layouts: Choices
) -> Iterator[tuple[Workload, Layout]]:
    """Yield a workload in a layout, and each change of one of both; nothing where it cannot be."""
    workload, layout = change(plain, asked), change(Layout(), laid_out)
    if workload is None or layout is None:
        return
    for changed in chain([workload], _list_changes(workload, words)):
        yield changed, layout
    for changed in _list_changes(layout, layouts):
        yield workload, changed


def _list_changes(base: Any, words: Choices) -> Iterator[Any]:  # noqa: ANN401 - a workload or a layout
    for name, values in words.items():
        for value in values:
            changed = change(base, {name: value})
            if changed is not None:
                yield changed


def change(base: Any, words: Words) -> Any:  # noqa: ANN401 - a workload or a layout
    """Return a value with other words, of those that it has; None where it cannot be."""
    known = {field.name for field in fields(base)}
    try:
        return replace(base, **{name: value for name, value in words.items() if name in known})
    except InvalidInputError:
        return None
