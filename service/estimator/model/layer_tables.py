"""Tables and masks that checkpoints hold, by the layers' windows.

Each layer of a model with several windows gets the tables and the mask of its own kind, which its
checkpoint keeps; backward ends them when it has been through the first of those layers.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from service.estimator.model.architecture import Architecture, Masks
from service.estimator.model.block_module import BlockModule
from service.estimator.model.recording import Recording
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Storage
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.attention_masks import make_causal_mask
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Attention

Run = tuple[tuple[tuple[BlockModule, int], ...], int]
"""A period of layers, each kind in a row with its number, and how often it is repeated."""
_PAIR = 2
"""Tables of a kind: cosines and sines."""


def make_masks(ctx: Recording, windows: Iterable[int | None], hidden: DType) -> Masks:
    """Return the masks that causal layers share, each with its window.

    They are added ones in ``hidden`` when eager, else booleans where there is more than causality.
    """
    is_eager, masks = ctx.settings.attention is Attention.EAGER, []
    for window in windows:
        if is_eager or ctx.has_mask(window):
            shape, dtype = ctx.get_read_shape(window), hidden if is_eager else None
            storage = make_causal_mask(
                ctx.tape, shape, has_window=window is not None, padded=ctx.padded, dtype=dtype
            )
            masks.append((window, Value(storage, shape.mask(1), hidden)))
    return tuple(masks)


class LayerTables:
    """Tables and masks that later layers alone read."""

    def __init__(self, tape: Tape, model: Architecture) -> None:
        """Start without any."""
        self._tape, self._model = tape, model
        self._held: dict[int | None, list[Storage]] = {}

    def divide(
        self, tables: Sequence[Storage], masks: Mapping[int | None, Storage]
    ) -> tuple[list[Storage], list[Storage]]:
        """Take over what only later layers read.

        Returns what the first one reads, and what none does.
        What all layers have in common the first one reads too. Masks come by their windows.
        """
        model, unread = self._model, list[Storage]()
        windows = list(dict.fromkeys(_get_window(block) for block, _ in model.blocks))
        first = _get_first_window(model.runs()[0])
        by_window: dict[int | None, list[Storage]] = {window: [] for window in windows}
        has_own = len(tables) == _PAIR * len(windows)
        for index, table in enumerate(tables):
            by_window[windows[index // _PAIR] if has_own else first].append(table)
        for window, mask in masks.items():
            by_window.get(window, unread).append(mask)
        read = by_window.pop(first)
        self._held = {window: storages for window, storages in by_window.items() if storages}
        return read, unread

    def list_runs(self) -> Sequence[Run]:
        """Return the runs of layers.

        The members of the first period come apart where one of them ends tables.
        """
        runs = self._model.runs()
        if not self._held:
            return runs
        (members, times), *others = runs
        apart: list[Run] = [((member,), 1) for member in members]
        return [*apart, *([(members, times - 1)] if times > 1 else []), *others]

    def enter(self, run: Run) -> None:
        """Let backward drop what nothing before these layers reads."""
        storages = self._held.pop(_get_first_window(run), None)
        if storages is not None:
            self._tape.hook(partial(self._tape.release, *storages))


def _get_first_window(run: Run) -> int | None:
    ((block, _), *_), _ = run
    return _get_window(block)


def _get_window(block: BlockModule) -> int | None:
    """Return the window whose tables and mask a layer reads."""
    window: int | None = getattr(block, "table_window", get_cache_window(block))
    return window


def get_cache_window(block: BlockModule) -> int | None:
    """Return the most tokens that a layer's cache keeps; None is all."""
    window: int | None = getattr(block, "cache_window", None)
    return window
