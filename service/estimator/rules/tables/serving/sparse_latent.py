"""Rules of serving models with an indexer (DeepSeek-V3.2, GLM-5)."""

from service.estimator.rules.grammar.conditions import is_absent, is_in
from service.estimator.rules.grammar.fields import model, workload
from service.estimator.rules.grammar.rule import NO_TERM, Rule, Topic, unmodelled
from service.estimator.values.workload import Cache, Engine

_SPARSE = is_in(model.family, "deepseek_v32", "glm_moe_dsa")
_READ = (Engine.SGLANG, Engine.VLLM)

SPARSE_ENGINES = (
    Rule(
        when=_SPARSE,
        require=is_in(workload.engine, *_READ),
        field=workload.engine.path,
        topic=Topic.FORMATS,
        refusal=unmodelled(
            "{workload.engine} with {model.family}, whose indexer keeps keys of its own",
            *("engine vllm", "engine sglang", "engine transformers"),
        ),
        reason="an indexer of {model.family}, whose keys {workload.engine} keeps in a way of its "
        "own",
        source=NO_TERM,
    ),
    Rule(
        when=_SPARSE,
        require=is_absent(workload.engine_version),
        field=workload.engine_version.path,
        topic=Topic.FORMATS,
        refusal=unmodelled(
            "{model.family} on another release than the newest that was read",
            "requests without engine_version",
        ),
        reason="the indexer of {model.family} is known of vLLM 0.33.0 and SGLang 0.5.23",
        source="vLLM 0.33.0, models/deepseek_v32; SGLang 0.5.23, srt/layers/attention/dsa",
    ),
)
"""What engines are asked about an indexer."""
STATIC_INDEX = Rule(
    when=_SPARSE,
    require=is_in(workload.cache, Cache.DYNAMIC),
    topic=Topic.CACHE,
    refusal=unmodelled("a static cache of {model.family}", "cache dynamic"),
    reason="a static cache of {model.family}, which keeps an indexer's keys too",
    source=NO_TERM,
)
"""What engine transformers is asked about one."""
