"""Rules of the number format of recurrent states."""

from service.estimator.rules.grammar.conditions import is_absent, is_given, is_in, is_true
from service.estimator.rules.grammar.fields import model, workload
from service.estimator.rules.grammar.rule import Rule, Topic, invalid, unmodelled
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Engine

_SOURCE = (
    "vLLM 0.33.0, vllm/config/cache.py, mamba_ssm_cache_dtype; SGLang 0.5.23, "
    "srt/arg_groups/fields/exec_.py, mamba_ssm_dtype"
)
_WORDS = "state_dtype is a word of engines vllm and sglang"

STATE_FORMATS = (
    Rule(
        when=is_given(workload.state_dtype),
        require=is_in(workload.engine, Engine.VLLM, Engine.SGLANG),
        field=workload.state_dtype.path,
        topic=Topic.FORMATS,
        refusal=invalid(f"{_WORDS}, and engine is {{workload.engine}}: leave it out"),
        reason=_WORDS,
        source=_SOURCE,
    ),
    Rule(
        when=is_given(workload.state_dtype),
        require=is_true(model.recurrent),
        field=workload.state_dtype.path,
        topic=Topic.FORMATS,
        refusal=invalid("no layer of {model.family} keeps a state: leave state_dtype out"),
        reason="no layer of {model.family} keeps a state",
        source=_SOURCE,
    ),
    Rule(
        require=is_in(workload.state_dtype, None, DType.FP32, DType.BF16, DType.FP16),
        topic=Topic.FORMATS,
        refusal=unmodelled("states in {workload.state_dtype}", "fp32", "bf16", "fp16"),
        reason="states in {workload.state_dtype}",
        source=_SOURCE,
    ),
)
"""What engines are asked about them."""

NO_STATE_FORMAT = (
    Rule(
        require=is_absent(workload.state_dtype),
        topic=Topic.WORDS,
        refusal=invalid(f"{_WORDS}, and engine is {{workload.engine}}: leave it out"),
        reason=_WORDS,
        source=_SOURCE,
    ),
)
"""What transformers is asked, whose states have the weights' format."""
