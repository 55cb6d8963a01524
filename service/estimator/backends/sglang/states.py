"""Recurrent states of SGLang, their format and number.

SGLang 0.5.23, ``srt/configs/mamba_utils.py`` (``mamba2_state_dtype``), ``arg_groups/overrides.py``
(``_mamba_radix_cache_resolution``), ``mem_cache/kv_cache_configurator.py``
(``_calculate_mamba_ratio``), by the defaults of a server.
"""

from service.estimator.model.architecture import Architecture
from service.estimator.model.recorded.narrowing import is_recorded
from service.estimator.values.dtypes import DType
from service.estimator.values.engine_versions import Version
from service.estimator.values.errors import NotModelledError

CONVOLUTION, _RECURRENCE = DType.BF16, DType.FP32
"""``SGLANG_MAMBA_CONV_DTYPE`` is bfloat16 whatever the weights are, the rest fp32 where the config
has no ``mamba_ssm_dtype``."""

_BASE_SLOTS, _EXTRA_SLOTS = 3, 2
"""Slots of a request with the radix cache, and those beside them that overlapped steps write in
turn (``extra_buffer``)."""
_OVERLAPPED = frozenset({"falcon_h1", "granitemoehybrid", "nemotron_h", "qwen3_next"})
_OVERLAPPED_CLASSES = frozenset(
    {
        *("FalconH1ForCausalLM", "GraniteMoeHybridForCausalLM", "NemotronHForCausalLM"),
        *("NemotronH_Omni_Reasoning_V3", "Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration"),
        *("Qwen3_5MoeForCausalLM", "Qwen3_5MoeForConditionalGeneration", "Qwen3NextForCausalLM"),
    }
)
"""``_MAMBA_EXTRA_BUFFER_ARCHS``, as far as transformers has them."""
_OLDEST = Version(0, 5, 20)
"""Release from which on padding is a slot of the states and Mamba's classes are there."""
CONTEXT_TOKENS = 2048
"""Context of a config that names none (``utils/hf_transformers/common.py``)."""


def get_recurrence_dtype(model: Architecture) -> DType:
    """Return the number format of recurrent states.

    A recorded config names it, or nobody does.
    """
    state_dtype = model.recorded.spec.state_dtype if is_recorded(model) else None
    return state_dtype or _RECURRENCE


def count_request_slots(model: Architecture) -> int:
    """Return how many states a running request holds."""
    overlapped = (
        model.recorded.model_class in _OVERLAPPED_CLASSES
        if is_recorded(model)
        else model.family in _OVERLAPPED
    )
    return _BASE_SLOTS + (_EXTRA_SLOTS if overlapped else 0)


def check_release(version: Version) -> None:
    """Refuse a release that shares memory with states in another way."""
    if version < _OLDEST:
        raise NotModelledError(
            f"sglang {version} with a model whose layers keep a state",
            field="workload.engine_version",
            modelled=[f"{_OLDEST} and later"],
        )
