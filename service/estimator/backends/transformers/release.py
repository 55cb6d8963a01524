"""Differences between releases of transformers in serving.

Logits, rotary tables and caches differ.
"""

from dataclasses import dataclass

from service.estimator.backends.transformers.backend import NEWEST, OLDEST
from service.estimator.model.architecture import Architecture
from service.estimator.model.weights.scheme import Packing, Scheme
from service.estimator.values.dtypes import DType
from service.estimator.values.engine_versions import Version, resolve_version
from service.estimator.values.workload import Cache

_LAST_LOGITS = Version(4, 45)
"""``num_logits_to_keep``: before it, prefill made logits of the whole prompt and their fp32 copy
(``logits.float()``).
"""
_SHARED_TABLES = Version(4, 45)
_LLAMA_TABLES = Version(4, 39)
"""Until then each layer's ``RotaryEmbedding`` kept cosines and sines of every position, llama's and
gemma's until 4.39.
"""
_CACHE_OBJECTS = Version(4, 36)
"""Before ``DynamicCache``, the caller held the tuple of all old tensors while the new ones were
made.
"""
_WITHOUT_FUSED_AWQ = Version(5, 0)
_FREES_MERGED = Version(4, 35)
"""AutoAWQ 0.1.6, of that month, drops the projections that it merged; the releases before kept them
beside the merged one.
"""
_TABLELESS = frozenset({"llama", "gemma", "gemma2"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformersRelease:
    """Behaviour of one release."""

    version: Version

    @property
    def full_logits(self) -> bool:
        """Whether prefill makes logits of the whole prompt."""
        return self.version < _LAST_LOGITS

    @property
    def keeps_old_cache(self) -> bool:
        """Whether a decode step holds the old cache until its end.

        The old cache is that of the step before.
        """
        return self.version < _CACHE_OBJECTS

    def has_fused_awq(self, scheme: Scheme | None, cache: Cache) -> bool:
        """Return whether AWQ runs on fused modules.

        They have a cache made at the start (``AwqConfig.do_fuse``, AutoAWQ).
        """
        awq = scheme is not None and scheme.packing is Packing.AWQ
        return awq and cache is Cache.STATIC and self.version < _WITHOUT_FUSED_AWQ

    def loads_tied_heads(self, scheme: Scheme) -> bool:
        """Return whether a stored head is loaded, then tied."""
        return scheme.packing is Packing.AWQ and self.version < _WITHOUT_FUSED_AWQ

    @property
    def frees_fused_projections(self) -> bool:
        """Whether fused modules drop the projections they are made of.

        They do once the model is loaded.
        """
        return self.version >= _FREES_MERGED

    def table_bytes(self, model: Architecture, dtype: DType) -> int:
        """Return the bytes of the rotary tables in layers.

        Layers of older releases kept cosine and sine of every position.
        """
        since = _LLAMA_TABLES if model.family in _TABLELESS else _SHARED_TABLES
        if self.version >= since or not model.rotary_tables:
            return 0
        positions = model.spec.max_position_embeddings * model.num_hidden_layers
        return positions * sum(model.rotary_tables[:2]) * dtype.bytes_per_element


def resolve_release(version: str | None) -> TransformersRelease:
    """Return the requested release."""
    return TransformersRelease(
        version=resolve_version(version, engine="transformers", oldest=OLDEST, newest=NEWEST)
    )
