"""What a layer's cache does to the keys and values of a pass (transformers 5.23 ``cache_utils.py``)."""

from dataclasses import dataclass

from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category
from service.estimator.tape.nodes import Value, bytes_of
from service.estimator.tape.pass_shape import Extent
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Cache


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """The cache that a pass finds: what it adds to it is recorded, what was there before is not."""

    kind: Cache
    length: int | None = None
    """Tokens that a static one is made for, layer by layer in prefill; None where it was made before."""
    full: bool = False
    """Whether static layers with a window have no room left in decode."""
    drops_prompt: bool = False
    """Whether this is the first pass after a prompt that layers with a window hold whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedLayer:
    """A layer that keeps keys and values: how many positions pass through it, and how many it reads."""

    tape: Tape
    store: Store
    extent: Extent
    reach: Extent
    window: int | None = None

    @property
    def rolls(self) -> bool:
        """Whether old tokens fall out of a window while one comes in."""
        return self.extent.decoding and self.window is not None


def through_layer(layer: CachedLayer, key: Value, value: Value, elements: int) -> tuple[Value, Value]:
    """Return key and value, of ``elements`` per token each, as attention reads them."""
    reach, dtype = layer.reach, key.dtype
    if layer.store.kind is Cache.STATIC:
        _prepare(layer, (elements, elements), dtype)
        if reach.window is not None and not reach.static and not reach.decoding:
            return key, value  # a prompt beyond the window is read as it is, and its end copied into the cache
    numel = reach.cached(elements)
    if layer.rolls:
        _roll(layer, bytes_of(numel, dtype), elements * dtype.bytes_per_element)
    joined = _joined(layer, numel, elements, dtype), _joined(layer, numel, elements, dtype)
    layer.tape.free(key, value)
    return joined


def through_apart(layer: CachedLayer, parts: tuple[Value, ...]) -> tuple[Value, ...]:
    """Return values of different sizes as attention reads them."""
    widths = tuple(part.numel[1] + part.numel[3] for part in parts)
    if layer.store.kind is Cache.STATIC:
        _prepare(layer, widths, parts[0].dtype)
    joined = tuple(_joined(layer, sizes.per_token(width), width, part.dtype) for part, width in zip(parts, widths, strict=True))
    layer.tape.free(*parts)
    return joined


def _prepare(layer: CachedLayer, widths: tuple[int, ...], dtype: DType) -> None:
    """Record that a static layer is made when it is first reached (``lazy_initialization``), in full."""
    length = layer.store.length
    if length is None or layer.extent.decoding:
        return
    tokens = min(length, layer.window or length)
    for width in widths:
        layer.tape.allocate(Category.KV_CACHE, bytes_of(sizes.per_sequence(width * tokens), dtype))


def _roll(layer: CachedLayer, size: Size, bytes_per_token: int) -> None:
    """Record a window's layer in decode: key and value are both new before either old one is dropped.

    A static layer is written in place until it is full, and then rolled in copies.
    """
    tape, store = layer.tape, layer.store
    if store.kind is Cache.STATIC and not store.full:
        return
    category = Category.KV_CACHE if store.drops_prompt else Category.TEMPORARIES
    made = [tape.allocate(category, size) for _ in range(2)]
    if not store.drops_prompt:
        tape.release(*made)
        if layer.reach.window is None and store.kind is Cache.DYNAMIC:
            tape.allocate(Category.KV_CACHE, sizes.per_sequence(2 * bytes_per_token))  # nothing fell out of it yet
        return
    prompt = sizes.subtract(sizes.per_token(bytes_per_token), sizes.per_sequence(bytes_per_token))
    for _ in made:
        tape.ledger.remove(Category.KV_CACHE, prompt)


def _joined(layer: CachedLayer, numel: Size, elements: int, dtype: DType) -> Value:
    """Return a part with what is cached already; the cache itself is counted once, whoever reads it.

    A dynamic cache concatenates: a new tensor each time, the old one dropped once the new one is there.
    """
    tape, size = layer.tape, bytes_of(numel, dtype)
    dynamic = layer.store.kind is Cache.DYNAMIC
    if dynamic and not layer.extent.decoding:
        return Value(tape.hold(tape.allocate(Category.KV_CACHE, size)), numel, dtype)
    if dynamic and not layer.rolls:
        tape.release(tape.allocate(Category.TEMPORARIES, size))
        tape.allocate(Category.KV_CACHE, bytes_of(sizes.per_sequence(elements), dtype))
    return Value(tape.allocate(Category.TEMPORARIES, sizes.ZERO), numel, dtype)
