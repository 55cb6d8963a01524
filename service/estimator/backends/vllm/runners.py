"""vLLM's second model runner (``v1/worker/gpu``): its models, and its sampler's state.

Which models it runs is ``config/vllm.py`` (``use_v2_model_runner``) of 0.22.0 to 0.33.0. Its
sampler keeps rows for all sequences that the engine may schedule, whether a request has penalties
or not: ``sample/penalties.py``, ``logit_bias.py``, ``bad_words.py``, ``logprob.py``, and
``structured_outputs.py`` beside them.
"""

from collections.abc import Mapping
from types import MappingProxyType

from service.estimator.memory.kv_cache import keeps_states
from service.estimator.model.architecture import Architecture
from service.estimator.values.engine_versions import Version
from service.estimator.values.errors import NotModelledError
from service.estimator.values.units import ceil_div
from service.estimator.values.workload import Quantization, ServeWorkload

_FIRST, _QUANTISED, _DENSE, _ALL = (Version(0, minor) for minor in (22, 24, 25, 29))
_FAMILIES: Mapping[Version, frozenset[str]] = MappingProxyType(
    {
        Version(0, 22): frozenset({"qwen3"}),
        Version(0, 23): frozenset({"llama", "mistral", "qwen3"}),
        Version(0, 24): frozenset(
            {"deepseek_v2", "granitemoe", "llama", "mistral", "qwen2_moe", "qwen3"}
        ),
        Version(0, 25): frozenset({"deepseek_v2", "granitemoe", "qwen2_moe"}),
    }
)
"""``DEFAULT_V2_MODEL_RUNNER_ARCHITECTURES``, as their families."""
_DRAFTS = Version(0, 33)
"""Release that drafts by a model or by n-grams on the second runner."""
_UNCOPIED = (Version(0, 26), Version(0, 27))
"""Logits were changed in place in between, and always copied to fp32 before and after."""
_COPIED_WHERE_NEEDED = Version(0, 28)
_POOLS_IN_CHUNKS = Version(0, 10)
_SAMPLED_AT_FULL_WIDTH = Version(0, 33)
"""The profiling run samples a second time with every option."""

_INT32, _BITS = 4, 32
_LISTS_PER_SEQUENCE = 1024 + 2 * 1024 + 128 + 1024 + 129 + 128
"""32-bit words a sequence: allowed tokens, biased tokens and their biases, stop tokens, tokens of
bad words and where each begins, tokens whose log probabilities are wanted.
"""


def runs_second_runner(model: Architecture, workload: ServeWorkload, version: Version) -> bool:
    """Return whether a release runs a model on its second runner."""
    if version < _FIRST or (workload.speculative is not None and version < _DRAFTS):
        return False
    if version >= _ALL:
        return True
    family = model.family
    known = family in _FAMILIES[max(known for known in _FAMILIES if known <= version)]
    if version < _QUANTISED:
        packed = model.quantization is not None or workload.quantization is not Quantization.NONE
        return known and not packed
    if version < _DENSE:
        return known
    return known or not (model.spec.num_experts or keeps_states(model))


def check_pooling(version: Version) -> None:
    """Refuse a release that pools other than it generates.

    Until 0.10 a profiling run was of 32,768 tokens (``config.py``,
    ``_POOLING_MODEL_MAX_NUM_BATCHED_TOKENS``).
    """
    if version < _POOLS_IN_CHUNKS:
        raise NotModelledError(
            f"vllm {version} with a model that is pooled",
            field="workload.engine_version",
            modelled=[f"{_POOLS_IN_CHUNKS} and later"],
        )


def copies_logits(version: Version) -> bool:
    """Return whether the profiling run copies the logits to fp32."""
    return version < _COPIED_WHERE_NEEDED and not _UNCOPIED[0] <= version < _UNCOPIED[1]


def samples_at_full_width(version: Version) -> bool:
    """Return whether the profiling run samples with every option."""
    return version >= _SAMPLED_AT_FULL_WIDTH


def count_sampler_bytes(vocabulary: int, num_sequences: int) -> int:
    """Return the bytes that the second runner's sampler keeps.

    They are how often each token came, which are in the prompt and which a grammar allows, and
    lists of tokens.
    """
    masks = 2 * ceil_div(vocabulary, _BITS)
    return num_sequences * _INT32 * (vocabulary + masks + _LISTS_PER_SEQUENCE)
