"""What a module sees while it is recorded: the tape, its weights, the adapters, and how large a token is."""

from collections.abc import Iterable
from dataclasses import replace
from importlib import import_module

from service.estimator.model.adapters.frozen import frozen_linear
from service.estimator.model.adapters.low_rank import low_rank
from service.estimator.model.adapters.parameters import factors_of
from service.estimator.model.adapters.site import Site
from service.estimator.model.adapters.stacks import Stacks, adapter_factors
from service.estimator.model.images import Images
from service.estimator.model.weights.collectives import shared_linear
from service.estimator.model.weights.quantized_layers import packed_away, quantises
from service.estimator.model.weights.scheme import Scheme
from service.estimator.model.weights.tensors import Linear, Norm, Weight, elements_over
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Parameter, Value
from service.estimator.tape.offloaded_checkpoint import Checkpoint
from service.estimator.tape.ops.kv_cache_update import CachedLayer, Store, through_apart, through_layer
from service.estimator.tape.ops.norms import (
    bare_norm,
    centred_norm,
    layer_norm,
    layer_norm_plus_one,
    rms_norm,
    rms_norm_all_fp32,
    rms_norm_plus_one,
)
from service.estimator.tape.ops.products import linear
from service.estimator.tape.pass_shape import Extent
from service.estimator.tape.shared_weights import Common
from service.estimator.tape.sizes import Size
from service.estimator.tape.units import Gathering, Units
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Attention, Lora

_SCALED_NORMS = {
    "rms": rms_norm,
    "rms_all_fp32": rms_norm_all_fp32,
    "rms_plus_one": rms_norm_plus_one,
    "centred": centred_norm,
}
"""Norms with one weight, by the style that a module gives them."""

_ELSEWHERE = {"dora": "dora", "ia3": "vectors", "miss": "vectors"}
"""Variants of adapters, by the module of ``adapters`` that is loaded when one is asked for."""


class Recording:
    """One pass over a model: makes the parameters, applies linear layers with their adapters, and norms."""

    def __init__(self, tape: Tape, *, dtype: DType, trains_all: bool, attention: Attention, lora: Lora | None) -> None:
        """Record with weights in ``dtype``; ``trains_all`` says whether the base weights get gradients."""
        self.tape = tape
        self.dtype = dtype
        self.attention = attention
        self.lora = lora
        self.extent = Extent()
        self.table_dtype = dtype
        self.store: Store | None = None
        self.padded = False
        self.window_reached = False
        self.batched = False
        self.length: int | None = None
        self.stacks: Stacks | None = None
        self.reads_whole: int | None = None
        self.names: list[Storage] | None = None
        self.trains_all = trains_all
        self.frozen: tuple[str, ...] = ()
        self.every: int | None = None
        self.passed = 0
        self.checkpoint: Checkpoint = Tape.checkpoint
        self.kept_outputs: dict[str, list[list[Storage]]] = {}
        self.scheme: Scheme | None = None
        self.compute = dtype
        self.copies_logits = False
        self.returns_fp32 = False
        self.checkpointed = False
        self.last_differs = False
        self.decoder_length: int | None = None
        self.units: Units | None = None
        self.images: Images | None = None
        self.common: Common | None = None
        self._parameters: dict[str, Parameter] = {}

    def parameter(self, weight: Weight, scope: str = "") -> Parameter:
        """Return the tape's parameter of a weight; ``scope`` tells blocks of different kinds apart."""
        shared = self.common is not None and weight.name in self.common.names
        name = weight.name if shared else self.tape.path + scope + weight.name
        if name not in self._parameters:
            trainable = self.trains(weight)
            self._parameters[name] = Parameter(
                name, weight.numel, self.dtype, trainable=trainable, shared=shared, viewed=weight.viewed
            )
        return self._parameters[name]

    def trains(self, weight: Weight) -> bool:
        """Tell whether a base weight gets a gradient."""
        return self.trains_all and weight.kind not in self.frozen

    def parameters(self, weights: Iterable[Weight], scope: str) -> list[Parameter]:
        """Return the parameters of several weights in order."""
        return [self.parameter(weight, scope) for weight in weights]

    def norm(self, norm: Norm, x: Value, scope: str, rows: Size | None = None) -> Value:
        """Return ``x`` normalised over rows (one per token unless given)."""
        rows = self.extent.tokens(1) if rows is None else rows
        if norm.style == "bare":
            return bare_norm(self.tape, x, rows)
        weight, *bias = self.parameters(norm.weights(), scope)
        if norm.style == "layer_plus_one":
            return layer_norm_plus_one(self.tape, x, weight, bias[0], rows)
        if norm.style == "layer":
            return layer_norm(self.tape, x, weight, bias[0] if bias else None, rows)
        return _SCALED_NORMS[norm.style](self.tape, x, weight, rows)

    def leave(self, weights: Value) -> None:
        """Take over attention weights: until the layer ends where it has a name for them, else they are dropped."""
        if self.names is not None and weights.storage is not None:
            self.names.append(weights.storage)
        else:
            self.tape.free(weights)

    def masked(self, window: int | None) -> bool:
        """Tell whether attention gets a mask beyond the causal one: of padding, a static cache's room, or a full window."""
        unfilled = self.extent.decoding and self.reads_whole is not None
        return self.padded or unfilled or (window is not None and self.window_reached)

    def reach(self, window: int | None) -> Extent:
        """Return the extent of a layer: with its window when there are more tokens than it reads."""
        beyond = window is not None and self.window_reached and not self.extent.static and not self.extent.decoding
        if self.reads_whole is not None and not beyond:
            length = min(window or self.reads_whole, self.reads_whole)
            return replace(self.extent, window=length, static=not self.extent.decoding)
        return replace(self.extent, window=window) if window is not None and self.window_reached else self.extent

    def linear(self, layer: Linear, x: Value, scope: str, *, category: Category = Category.ACTIVATIONS) -> Value:
        """Return the layer's output, with its adapter's share when it is a target."""
        weight, *bias = self.parameters(layer.weights(), scope)
        out = self.extent.tokens(layer.out_features)
        if layer.ranks > 1:
            rows = self.extent.tokens(1)
            return shared_linear(self.tape, layer, x, weight, rows=rows, bias=bias[0] if bias else None, category=category)
        packed, adapted = self.scheme is not None and quantises(layer, self.scheme), self.adapts(layer)
        site = self._site(layer, scope, packed=packed) if packed or adapted else None

        def base(value: Value) -> Value:
            if site is not None and packed:
                return frozen_linear(site, value, category=category)
            return linear(self.tape, value, weight, out, bias=bias[0] if bias else None, category=category)

        if site is None or self.lora is None or not adapted:
            return base(x)
        if self.lora.variant not in _ELSEWHERE:
            return low_rank(site, x, base(x), rank=self.lora.rank, dtype=self.lora.dtype)
        module = import_module(f"service.estimator.model.adapters.{_ELSEWHERE[self.lora.variant]}")
        result: Value = getattr(module, self.lora.variant)(site, x, base, rank=self.lora.rank, dtype=self.lora.dtype)
        return result

    def _site(self, layer: Linear, scope: str, *, packed: bool) -> Site:
        """Return what adapters and quantised weights need to know about a layer in this pass."""
        return Site(
            tape=self.tape,
            layer=layer,
            tokens=self.extent.tokens,
            parameter=lambda name, numel, dtype: self.adapter(f"{scope}{layer.name}.{name}", numel, dtype),
            scheme=self.scheme if packed else None,
            compute=self.compute,
            weight_dtype=self.dtype,
        )

    def elements_of(self, weights: Iterable[Weight], linears: Iterable[Linear], how: Gathering) -> tuple[int, int]:
        """Return the elements of a block with its adapters, each in the room that it takes, and those that are trained."""
        ranks, weights = how.uneven, tuple(weights)
        base = elements_over(weights, ranks)
        linears = tuple(linears)
        if self.scheme is not None:
            base -= sum(packed_away(layer, self.scheme, self.compute) for layer in linears)
        factors = [*adapter_factors(self.stacks, weights)]
        if self.lora is not None:
            factors += [factor for layer in linears if self.adapts(layer) for factor in factors_of(layer, self.lora)]
        adapters = elements_over(factors, ranks)
        trained = elements_over([weight for weight in weights if self.trains(weight)], ranks) if self.frozen else base
        return base + how.widened(adapters), trained if self.trains_all else adapters

    def adapts(self, layer: Linear) -> bool:
        """Tell whether a layer carries an adapter."""
        if self.lora is None:
            return False
        if self.stacks is not None and layer.target in self.stacks.words:
            return False
        return self.lora.targets is None or layer.target in self.lora.targets

    def cached(self, key: Value, value: Value, elements: int, window: int | None = None) -> tuple[Value, Value]:
        """Return key and value as attention reads them: through the cache when there is one, ``elements`` per token each."""
        if self.store is None:
            return key, value
        layer = CachedLayer(tape=self.tape, store=self.store, extent=self.extent, reach=self.reach(window), window=window)
        return through_layer(layer, key, value, elements)

    def cached_apart(self, *parts: Value) -> tuple[Value, ...]:
        """Return values of different sizes as attention reads them, each through the cache when there is one."""
        if self.store is None:
            return parts
        return through_apart(CachedLayer(tape=self.tape, store=self.store, extent=self.extent, reach=self.extent), parts)

    def adapter(self, name: str, numel: int, dtype: DType) -> Parameter:
        """Return an adapter's tensor, which is trained."""
        name = self.tape.path + name
        if name not in self._parameters:
            self._parameters[name] = Parameter(name, numel, dtype, trainable=True)
        return self._parameters[name]
