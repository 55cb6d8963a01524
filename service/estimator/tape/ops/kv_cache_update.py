"""Updates of a layer's key/value cache (transformers 5.23 ``cache_utils.py``)."""

from dataclasses import dataclass

from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category
from service.estimator.tape.nodes import Value, count_bytes
from service.estimator.tape.pass_shape import PassShape
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Cache


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheState:
    """State of the key/value cache at the start of a pass.

    What the pass adds to it is recorded, what was there before is not.
    """

    kind: Cache
    length: int | None = None
    """Tokens that a static cache is made for, layer by layer in prefill; None where it was made
    before.
    """
    full: bool = False
    """Whether static layers with a window have no room left in decode."""
    drops_prompt: bool = False
    """Whether this is the first pass after a prompt that layers with a window hold whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedLayer:
    """Layer that keeps keys and values.

    ``shape`` are the positions that pass through it, ``read_shape`` those that it reads.
    """

    tape: Tape
    cache: CacheState
    shape: PassShape
    read_shape: PassShape
    window: int | None = None

    @property
    def rolls(self) -> bool:
        """Whether a window drops an old token for every new one."""
        return self.shape.decoding and self.window is not None


def update_key_value(
    layer: CachedLayer, key: Value, value: Value, elements: int
) -> tuple[Value, Value]:
    """Return key and value as attention reads them.

    Each has ``elements`` per token.
    """
    read_shape, dtype = layer.read_shape, key.dtype
    if layer.cache.kind is Cache.STATIC:
        _initialize_static(layer, (elements, elements), dtype)
        if read_shape.window is not None and not read_shape.static and not read_shape.decoding:
            return (
                key,
                value,
            )  # a prompt beyond the window is read as it is, and its end copied into the cache
    numel = read_shape.cached(elements)
    if layer.tape.follows_caches and layer.cache.kind is Cache.DYNAMIC:
        key, value = _replace_cached(layer, (key, value), (numel, numel))
        return key, value
    if layer.rolls:
        _roll_window(layer, count_bytes(numel, dtype), elements * dtype.bytes_per_element)
    joined = (
        _join_cached(layer, numel, elements, dtype),
        _join_cached(layer, numel, elements, dtype),
    )
    layer.tape.free(key, value)
    return joined


def update_parts(layer: CachedLayer, parts: tuple[Value, ...]) -> tuple[Value, ...]:
    """Return values of different sizes as attention reads them."""
    widths = tuple(part.numel[1] + part.numel[3] for part in parts)
    if layer.cache.kind is Cache.STATIC:
        _initialize_static(layer, widths, parts[0].dtype)
    elif layer.tape.follows_caches:
        return _replace_cached(layer, parts, tuple(map(sizes.per_token, widths)))
    joined = tuple(
        _join_cached(layer, sizes.per_token(width), width, part.dtype)
        for part, width in zip(parts, widths, strict=True)
    )
    layer.tape.free(*parts)
    return joined


def _replace_cached(
    layer: CachedLayer, parts: tuple[Value, ...], numels: tuple[Size, ...]
) -> tuple[Value, ...]:
    """Return a dynamic layer's parts, each joined with its old positions.

    The joined ones are new tensors.
    ``DynamicLayer`` drops an old tensor once its successor is there, ``DynamicSlidingWindowLayer``
    both of them once both are (transformers 5.23, cache_utils.py, ``update``).
    """
    tape, joined = layer.tape, []
    one_by_one = layer.shape.decoding and layer.window is None
    for part, numel in zip(parts, numels, strict=True):
        storage = tape.allocate(Category.KV_CACHE, count_bytes(numel, part.dtype))
        tape.keep_cached(storage)
        joined.append(Value(storage, numel, part.dtype))
        tape.drop_cached(int(one_by_one))
    if layer.shape.decoding and not one_by_one:
        tape.drop_cached(len(parts))
    tape.free(*parts)
    return tuple(joined)


def _initialize_static(layer: CachedLayer, widths: tuple[int, ...], dtype: DType) -> None:
    """Record the full allocation of a static layer.

    It is made when the layer is first reached (``lazy_initialization``).
    """
    length = layer.cache.length
    if length is None or layer.shape.decoding:
        return
    tokens = min(length, layer.window or length)
    for width in widths:
        layer.tape.keep_cached(
            layer.tape.allocate(
                Category.KV_CACHE, count_bytes(sizes.per_sequence(width * tokens), dtype)
            )
        )


def _roll_window(layer: CachedLayer, size: Size, bytes_per_token: int) -> None:
    """Record the update of a window's layer in decode.

    Key and value are both new before either old one is dropped. A static layer is written in place
    until it is full, and then rolled in copies.
    """
    tape, cache = layer.tape, layer.cache
    if cache.kind is Cache.STATIC and not cache.full:
        return
    category = Category.KV_CACHE if cache.drops_prompt else Category.TEMPORARIES
    buffers = [tape.allocate(category, size) for _ in range(2)]
    if not cache.drops_prompt:
        tape.release(*buffers)
        if layer.read_shape.window is None and cache.kind is Cache.DYNAMIC:
            tape.allocate(
                Category.KV_CACHE, sizes.per_sequence(2 * bytes_per_token)
            )  # nothing fell out of it yet
        return
    prompt = sizes.subtract(sizes.per_token(bytes_per_token), sizes.per_sequence(bytes_per_token))
    for _ in buffers:
        tape.ledger.remove(Category.KV_CACHE, prompt)


def _join_cached(layer: CachedLayer, numel: Size, elements: int, dtype: DType) -> Value:
    """Return a part joined with its cached positions.

    The cache itself is counted once, however many layers read it. A dynamic cache concatenates: a
    new tensor each time, the old one dropped once the new one is there.
    """
    tape, size = layer.tape, count_bytes(numel, dtype)
    dynamic = layer.cache.kind is Cache.DYNAMIC
    if dynamic and not layer.shape.decoding:
        return Value(tape.hold(tape.allocate(Category.KV_CACHE, size)), numel, dtype)
    if dynamic and not layer.rolls:
        tape.release(tape.allocate(Category.TEMPORARIES, size))
        tape.allocate(Category.KV_CACHE, count_bytes(sizes.per_sequence(elements), dtype))
    return Value(tape.allocate(Category.TEMPORARIES, sizes.ZERO), numel, dtype)
