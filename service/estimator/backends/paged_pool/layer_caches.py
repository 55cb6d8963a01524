"""Caches of a token and states of a sequence, by layer."""

from dataclasses import dataclass
from math import prod

from service.estimator.memory.kv_cache import (
    count_engine_cache_elements,
    find_state_mixer,
)
from service.estimator.model.architecture import Architecture
from service.estimator.model.block_module import BlockModule
from service.estimator.model.layer_tables import get_cache_window
from service.estimator.model.recorded.narrowing import is_recorded
from service.estimator.model.recorded.recorded_model import SequenceState
from service.estimator.values.dtypes import DType

_SCALED_KEYS, _SCALE_BYTES = 128, 4
"""Elements of an indexer's key that share a scale, and its bytes."""


@dataclass(frozen=True, slots=True)
class LayerCache:
    """Layers of one kind on a rank, and what they cache.

    It has the elements that one of them caches for a token, its window, and how many layers there
    are.
    """

    elements_per_token: int
    window: int | None
    count: int
    side_bytes: int = 0
    """Bytes of a token beside those elements, whatever their format."""

    def count_token_bytes(self, element_bytes: int) -> int:
        """Return the bytes that all of them cache for a token."""
        return (self.elements_per_token * element_bytes + self.side_bytes) * self.count


@dataclass(frozen=True, slots=True)
class LayerState:
    """Layers of one kind that keep a state of each sequence.

    It has the bytes of one state, and how many layers there are.
    """

    bytes: int
    count: int
    exports: bool
    """Whether a prefill can write a state of an earlier position (Mamba2, gated delta rule)."""


def count_kinds(model: Architecture, start: int, end: int) -> tuple[int, ...]:
    """Return the number of layers of each kind between two layers."""
    if model.order:
        return tuple(model.order[start:end].count(kind) for kind in range(len(model.blocks)))
    counts, first = [], 0
    for _, count in model.blocks:
        counts.append(max(0, min(end, first + count) - max(start, first)))
        first += count
    return tuple(counts)


def merge_caches(model: Architecture, kinds: tuple[int, ...]) -> tuple[LayerCache, ...]:
    """Return the caches of a stage.

    Kinds that cache alike are together. Keys of an indexer are kept in fp8, with a scale in fp32 of
    each 128 (vLLM 0.33.0, ``models/deepseek_v2.py``, ``Indexer``; SGLang 0.5.23,
    ``DSATokenToKVPool``).
    """
    counts: dict[tuple[int, int | None, int], int] = {}
    for (block, _), count in zip(model.blocks, kinds, strict=True):
        index = count_index_elements(block)
        elements = count_engine_cache_elements(block) - index
        key = (elements, get_cache_window(block), index + index // _SCALED_KEYS * _SCALE_BYTES)
        if count and elements:
            counts[key] = counts.get(key, 0) + count
    return tuple(
        LayerCache(elements, window, count, side_bytes)
        for (elements, window, side_bytes), count in counts.items()
    )


def count_index_elements(block: BlockModule) -> int:
    """Return the elements of the key that an indexer keeps."""
    elements: int = getattr(getattr(block, "attention", None), "index_elements_per_token", 0)
    return elements


def merge_states(
    model: Architecture, kinds: tuple[int, ...], dtype: DType, state_dtype: DType | None = None
) -> tuple[LayerState, ...]:
    """Return the states of a stage.

    They are the last inputs of a convolution, in the dtype of the weights, and what has come of all
    of them, in ``state_dtype``, else in that one or in the one that a class's config names (vLLM
    0.33.0, ``layers/mamba/mamba_utils.py`` and ``models/config.py``).
    """
    counts: dict[tuple[int, bool], int] = {}
    recurrence = state_dtype or _get_recurrence_dtype(model, dtype)
    for (block, _), count in zip(model.blocks, kinds, strict=True):
        inputs, states = _count_state_elements(block)
        if count and inputs + states:
            size = inputs * dtype.bytes_per_element + states * recurrence.bytes_per_element
            key = (size, _exports(block))
            counts[key] = counts.get(key, 0) + count
    return tuple(LayerState(size, count, exports) for (size, exports), count in counts.items())


def _get_recurrence_dtype(model: Architecture, dtype: DType) -> DType:
    """Return the number format of recurrent states.

    Of Qwen3.5 it is the config's ``mamba_ssm_dtype`` (``Qwen3_5ForConditionalGenerationConfig``),
    of Nemotron-H its ``mamba_ssm_cache_dtype``, else fp32 (``NemotronHForCausalLMConfig``).
    """
    if not is_recorded(model):
        named: str = getattr(model.spec, "cached_state", "")
        return DType(named) if named else dtype
    spec, model_class = model.recorded.spec, model.recorded.model_class
    if model_class.startswith("Qwen3_5"):
        return spec.state_dtype or dtype
    if model_class.startswith("NemotronH"):
        return spec.cached_state_dtype or DType.FP32
    return dtype


_HEADS = 3
"""Axes of a state that has heads, each with a matrix (Mamba2, gated delta rule)."""


def _exports(block: BlockModule) -> bool:
    recorded = _list_recorded_states(block)
    if recorded:
        return any(len(state.recurrent) == _HEADS for state in recorded)
    return hasattr(find_state_mixer(block), "convolved_size")


def count_slot_bytes(model: Architecture, *, convolution: DType, recurrence: DType) -> int:
    """Return the bytes of one state of all layers.

    The last inputs of a convolution have one number format, what has come of all of them another.
    """
    total = 0
    for block, count in model.blocks:
        inputs, states = _count_state_elements(block)
        total += count * inputs * convolution.bytes_per_element
        total += count * states * recurrence.bytes_per_element
    return total


def _count_state_elements(block: BlockModule) -> tuple[int, int]:
    """Return the elements of a layer's state.

    They are the last inputs of a convolution, which needs one position less than it spans, and what
    has come of all of them.
    """
    recorded = _list_recorded_states(block)
    if recorded:
        parts = [_count_recorded_elements(state) for state in recorded]
        return sum(inputs for inputs, _ in parts), sum(states for _, states in parts)
    mixer = find_state_mixer(block)
    if mixer is None:
        return 0, 0
    inner = getattr(mixer, "inner_size", 0)
    states = getattr(mixer, "states", None) or inner * getattr(mixer, "state_size", 0)
    convolved = getattr(mixer, "convolved_size", inner)
    return (getattr(mixer, "kernel_size", 1) - 1) * convolved, states


def _count_recorded_elements(state: SequenceState) -> tuple[int, int]:
    """Return the elements of a recorded state, as engines keep it.

    transformers keeps all positions of a convolution, engines all but the newest.
    """
    channels, *positions = state.convolution or (0, 1)
    return channels * (positions[-1] - 1), prod(state.recurrent) if state.recurrent else 0


def _list_recorded_states(block: BlockModule) -> tuple[SequenceState, ...]:
    """Return the states of a recorded layer; none of another."""
    states: tuple[SequenceState, ...] = getattr(block, "states", ())
    return states
