"""Recording of a model's modules on a tape.

It gives a module the tape, its weights, the adapters, and the size of a token.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from service.estimator.model.adapters.dora import dora
from service.estimator.model.adapters.frozen import apply_frozen_linear
from service.estimator.model.adapters.low_rank import apply_low_rank
from service.estimator.model.adapters.site import Site
from service.estimator.model.adapters.vectors import ia3, miss
from service.estimator.model.pass_context import PassContext
from service.estimator.model.weights.collectives import apply_sharded_linear
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Parameter, Value, count_bytes
from service.estimator.tape.ops.elementwise import chain
from service.estimator.tape.ops.kv_cache_update import (
    CachedLayer,
    update_key_value,
    update_parts,
)
from service.estimator.tape.ops.liger import normalise_in_kernel
from service.estimator.tape.ops.norms import (
    centred_norm,
    layer_norm,
    layer_norm_plus_one,
    layer_norm_without_weight,
    rms_norm,
    rms_norm_all_fp32,
    rms_norm_cast_first,
    rms_norm_cast_weight,
    rms_norm_plus_one,
)
from service.estimator.tape.ops.products import autocast_input, linear
from service.estimator.tape.pass_shape import PassShape
from service.estimator.tape.shared_weights import SharedLayerState
from service.estimator.tape.sizes import Size
from service.estimator.tape.units import ShardedUnits
from service.estimator.values.dtypes import DType

if TYPE_CHECKING:
    from service.estimator.tape.programs.interpreter import Frame
    from service.estimator.tape.programs.recorded_pass import RecordedPass

_SCALED_NORMS = {
    "rms": rms_norm,
    "rms_all_fp32": rms_norm_all_fp32,
    "rms_cast_first": rms_norm_cast_first,
    "rms_cast_weight": rms_norm_cast_weight,
    "rms_plus_one": rms_norm_plus_one,
    "centred": centred_norm,
}
"""Norms with one weight, by the style that a module gives them."""
_FUSED_NORMS = frozenset({"rms", "rms_cast_first", "rms_plus_one"})
"""Norms that Liger's kernel computes."""

_WEIGHT_VARIANTS = {"dora": dora, "ia3": ia3, "miss": miss}
"""Variants of adapters that run the base layer themselves."""


class Recording:
    """One pass over a model.

    It makes the parameters, applies linear layers with their adapters, and norms.
    """

    def __init__(
        self, tape: Tape, settings: PassContext, *, units: ShardedUnits | None = None
    ) -> None:
        """Record on ``tape``; ``units`` gather and reduce sharded parameters."""
        self.tape = tape
        self.settings = settings
        self.units = units
        self.shape = settings.shape
        self.cache = settings.cache
        self.padded = settings.padded
        self.window_reached = settings.window_reached
        self.table_dtype = settings.dtype
        self.layer_locals: list[Storage] | None = None
        self.num_recorded_layers = 0
        self.cast_inputs: list[Storage] = []
        self.reads_ids, self.has_leaf_input = True, settings.lora is not None
        self.saved_outputs: dict[str, list[list[Storage]]] = {}
        self.common: SharedLayerState | None = None
        self.recorded_frame: Frame | None = None
        self.recorded_pass: RecordedPass | None = None
        self._parameters: dict[str, Parameter] = {}

    def parameter(self, weight: Weight, scope: str = "") -> Parameter:
        """Return the tape's parameter of a weight.

        ``scope`` tells blocks of different kinds apart.
        """
        shared = self.common is not None and weight.name in self.common.weight_names
        name = weight.name if shared else self.tape.path + scope + weight.name
        if name not in self._parameters:
            trainable = self.is_trained(weight)
            self._parameters[name] = Parameter(
                name,
                weight.numel,
                self.settings.dtype,
                trainable=trainable,
                shared=shared,
                viewed=weight.viewed,
            )
            self._parameters[name].grad_elements = self.settings.count_gradient_elements(weight)
        return self._parameters[name]

    def is_trained(self, weight: Weight) -> bool:
        """Return whether a base weight gets a gradient."""
        if weight.name in self.settings.saved:
            return True
        return self.settings.trains_all and weight.kind not in self.settings.frozen

    def parameters(self, weights: Iterable[Weight], scope: str) -> list[Parameter]:
        """Return the parameters of several weights in order."""
        return [self.parameter(weight, scope) for weight in weights]

    def take_input(self, numel: Size) -> Value:
        """Return floats that come with a batch.

        They live as long as the step; the pass reads a copy where they are cast before it.
        """
        dtype, given = self.settings.dtype, self.settings.input_dtype
        storage = self.tape.allocate(Category.ACTIVATIONS, count_bytes(numel, given or dtype))
        if given is not None:
            storage = self.tape.allocate(Category.ACTIVATIONS, count_bytes(numel, dtype))
            self.cast_inputs.append(storage)
        return Value(storage, numel, dtype)

    def require_input_grad(self, x: Value) -> None:
        """Make embeddings without a gradient a leaf, where blocks are checkpointed.

        (transformers 5.23 ``modeling_utils.py``, ``_activation_checkpointing_enable``.)
        """
        if self.settings.has_leaf_input and self.reads_ids and not x.requires_grad:
            self.tape.require_grad(x)
            self.has_leaf_input = True

    def norm(self, norm: Norm, x: Value, scope: str, rows: Size | None = None) -> Value:
        """Return ``x`` normalised over rows (one per token unless given)."""
        rows = self.shape.tokens(1) if rows is None else rows
        if norm.style == "bare":
            return layer_norm_without_weight(self.tape, x, rows)
        weight, *bias = self.parameters(norm.weights(), scope)
        if norm.style == "layer_plus_one":
            return layer_norm_plus_one(self.tape, x, weight, bias[0], rows)
        if self.settings.fuses_kernels and norm.style in _FUSED_NORMS:
            in_place, is_shared = self.settings.normalises_in_place, self.settings.shares_casts
            normed = normalise_in_kernel(self.tape, x, weight, rows, in_place=in_place)
            return chain(self.tape, normed, autocast_input) if is_shared else normed
        if norm.style == "layer":
            return layer_norm(self.tape, x, weight, bias[0] if bias else None, rows)
        return _SCALED_NORMS[norm.style](self.tape, x, weight, rows)

    def discard_weights(self, weights: Value) -> None:
        """Take over attention weights and drop them.

        Where the layer has a local name for them they live until it ends.
        """
        if self.layer_locals is not None and weights.storage is not None:
            self.layer_locals.append(weights.storage)
        else:
            self.tape.free(weights)

    def has_mask(self, window: int | None) -> bool:
        """Return whether attention gets a mask beyond the causal one."""
        if self.shape.decoding and self.settings.static_cache_length is not None:
            return True
        is_cut = self.padded or (window is not None and self.window_reached)
        return is_cut and not self.settings.unsloth

    def get_read_shape(self, window: int | None) -> PassShape:
        """Return the shape of the positions that a layer reads.

        It has the layer's window when there are more tokens than it reads.
        """
        is_beyond_window = (
            window is not None
            and self.window_reached
            and not self.shape.static
            and not self.shape.decoding
        )
        if self.settings.static_cache_length is not None and not is_beyond_window:
            length = min(
                window or self.settings.static_cache_length, self.settings.static_cache_length
            )
            return replace(self.shape, window=length, static=not self.shape.decoding)
        return (
            replace(self.shape, window=window)
            if window is not None and self.window_reached
            else self.shape
        )

    def linear(
        self,
        layer: Linear,
        x: Value,
        scope: str,
        *,
        category: Category = Category.ACTIVATIONS,
        rows: Size | None = None,
    ) -> Value:
        """Return the layer's output, including that of its adapter.

        Only target layers have an adapter. ``rows`` of the input are as many as tokens unless
        given.
        """
        weight, *bias = self.parameters(layer.weights(), scope)
        count = self.shape.tokens if rows is None else partial(sizes.scale, rows)
        out = count(layer.out_features)
        if layer.ranks > 1:
            return apply_sharded_linear(
                self.tape,
                layer,
                x,
                weight,
                rows=count(1),
                bias=bias[0] if bias else None,
                category=category,
            )
        packed, adapted = self.settings.packs(layer), self.settings.has_adapter(layer)
        site = self.site(layer, scope, count, packed=packed) if packed or adapted else None

        def base(value: Value) -> Value:
            if site is not None and packed:
                return apply_frozen_linear(site, value, category=category)
            return linear(
                self.tape, value, weight, out, bias=bias[0] if bias else None, category=category
            )

        if site is None or self.settings.lora is None or not adapted:
            return base(x)
        lora = self.settings.lora
        apply_variant = _WEIGHT_VARIANTS.get(lora.variant)
        if apply_variant is None:
            return apply_low_rank(site, x, base(x), rank=lora.rank, dtype=lora.dtype)
        return apply_variant(site, x, base, rank=lora.rank, dtype=lora.dtype)

    def site(
        self, layer: Linear, scope: str, count: Callable[[int], Size], *, packed: bool
    ) -> Site:
        """Return a layer's context for adapters and quantised weights."""
        return Site(
            tape=self.tape,
            layer=layer,
            tokens=count,
            parameter=lambda name, numel, dtype: self.adapter(
                f"{scope}{layer.name}.{name}", numel, dtype
            ),
            scheme=self.settings.scheme if packed else None,
            compute_dtype=self.settings.compute_dtype,
            weight_dtype=self.settings.dtype,
            dropout=0.0 if self.settings.lora is None else self.settings.lora.dropout,
        )

    def update_cache(
        self, key: Value, value: Value, elements: int, window: int | None = None
    ) -> tuple[Value, Value]:
        """Return key and value as attention reads them.

        They go through the cache when there is one, ``elements`` per token each.
        """
        if self.cache is None:
            return key, value
        layer = CachedLayer(
            tape=self.tape,
            cache=self.cache,
            shape=self.shape,
            read_shape=self.get_read_shape(window),
            window=window,
        )
        return update_key_value(layer, key, value, elements)

    def update_cache_parts(self, *parts: Value) -> tuple[Value, ...]:
        """Return values of different sizes as attention reads them.

        Each goes through the cache when there is one.
        """
        if self.cache is None:
            return parts
        return update_parts(
            CachedLayer(tape=self.tape, cache=self.cache, shape=self.shape, read_shape=self.shape),
            parts,
        )

    def adapter(self, name: str, numel: int, dtype: DType) -> Parameter:
        """Return an adapter's tensor, which is trained."""
        name = self.tape.path + name
        if name not in self._parameters:
            self._parameters[name] = Parameter(name, numel, dtype, trainable=True)
        return self._parameters[name]
