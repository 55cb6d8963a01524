"""Times of attention: one fused kernel, or products and a softmax."""

from collections.abc import Mapping
from types import MappingProxyType

from service.estimator.model.architecture import Architecture
from service.estimator.speed.machine import Machine
from service.estimator.speed.work import ForwardWork
from service.estimator.values.dtypes import DType
from service.estimator.values.engine_versions import Version, parse_version
from service.estimator.values.workload import Attention, ServeWorkload

_REFACTORED = Version(4, 48)
_ALL_REFACTORED = Version(4, 53)
REPEATED_UNTIL: Mapping[str, Version] = MappingProxyType(
    {
        **dict.fromkeys(("mistral", "mixtral", "phi3", "qwen2", "starcoder2"), _REFACTORED),
        **dict.fromkeys(("jamba", "phimoe", "qwen2_moe", "qwen2_vl"), _ALL_REFACTORED),
    }
)
"""Releases up to which ``…FlashAttention2`` of a family copied keys and values for each head of the
query before its kernel, which needs no copies (transformers 4.38.2, 4.46.0, 4.48.0, 4.50.0 and
4.52.4: ``repeat_kv`` in the classes of that name).
"""
BACKWARD_ATTENTION = 2.5
"""Five products instead of two (arXiv:2307.08691, section 2.3)."""
_WHOLE_SCORES = 2
"""Scores of whole matrices per score that a causal mask leaves."""
_WRITTEN_AND_READ = 2


def time_attention(
    work: ForwardWork, machine: Machine, flops: float, *, masked: bool = False
) -> tuple[float, float]:
    """Return the seconds of attention's products in forward and in backward.

    Products of whole matrices do not skip what the causal mask hides, and the math kernel
    multiplies in fp32 (ATen ``_scaled_dot_product_attention_math``). ``masked``: whether the FLOPs
    are those of a dense mask, so of whole matrices already.
    """
    rates = machine.rates
    if work.has_fused_attention:
        return (
            flops / machine.flops / rates.attention_forward,
            BACKWARD_ATTENTION * flops / machine.flops / rates.attention_backward,
        )
    is_math = work.scores_dtype is DType.FP32
    rate = machine.get_rate(DType.FP32) if is_math else machine.flops * rates.products
    seconds = (1 if masked else _WHOLE_SCORES) * flops / rate
    return seconds, 2 * seconds


def repeats_heads(model: Architecture, workload: ServeWorkload) -> bool:
    """Return whether a release copies heads before a fused kernel."""
    until = REPEATED_UNTIL.get(model.family)
    return (
        workload.attention is Attention.FLASH
        and workload.engine_version is not None
        and until is not None
        and parse_version(workload.engine_version) < until
    )


def count_head_copies(
    model: Architecture, work: ForwardWork, cache_bytes: float, dtype: DType, *, repeated: bool
) -> float:
    """Return the bytes of copies of a cache's heads, per token.

    A product without a fused kernel wants a head of key and value for each of the query, in the
    dtype of the scores: the whole cache is written so, and read again. With as many heads it reads
    the cache as it is, unless it is cast. ``repeated`` heads are copied before a fused kernel too.
    """
    scores = dtype if repeated else work.scores_dtype
    is_fused = work.has_fused_attention and not repeated
    if is_fused or scores is None or not work.num_attentions:
        return 0.0
    copies = model.spec.num_attention_heads / max(model.spec.num_key_value_heads, 1)
    if copies == 1 and scores is dtype:
        return 0.0
    return (
        _WRITTEN_AND_READ
        * cache_bytes
        / dtype.bytes_per_element
        * copies
        * scores.bytes_per_element
    )
