"""Updates of caches, which are no modules and have no hooks."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from worker.probes.architecture.listening.raw_pass import (
    CACHE_UPDATE,
    RawEntry,
    RawEvent,
    RawExit,
)

_CACHE_LAYERS: tuple[Any, ...] = (DynamicLayer, DynamicSlidingWindowLayer)


@contextmanager
def listen_to_caches(
    events: list[RawEvent], number_all: Callable[[object], list[int]]
) -> Iterator[None]:
    """Note in ``events`` when an update of a cache begins and ends."""

    def wrap(update: Callable[..., Any]) -> Callable[..., Any]:
        def update_heard(layer: Any, *args: Any, **named: Any) -> Any:  # noqa: ANN401 - transformers' own signature
            window = layer.sliding_window if layer.is_sliding else None
            inputs = number_all(args[:2])
            events.append(RawEntry(module="", kind=CACHE_UPDATE, inputs=inputs, window=window))
            joined = update(layer, *args, **named)
            events.append(RawExit(module="", outputs=number_all(joined), kind=CACHE_UPDATE))
            return joined

        return update_heard

    updates = [layer.__dict__["update"] for layer in _CACHE_LAYERS]
    for layer, update in zip(_CACHE_LAYERS, updates, strict=True):
        layer.update = wrap(update)
    try:
        yield
    finally:
        for layer, update in zip(_CACHE_LAYERS, updates, strict=True):
            layer.update = update
