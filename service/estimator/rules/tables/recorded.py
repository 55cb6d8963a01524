"""Rules of models whose passes were recorded from transformers' own code.

A recording has the operations of the kernels, batches and losses that it was made with.
"""

from service.estimator.rules.grammar.conditions import (
    all_of,
    any_of,
    is_at_most,
    is_false,
    is_in,
    is_true,
    satisfies,
)
from service.estimator.rules.grammar.fields import TOKENS, layout, model, workload
from service.estimator.rules.grammar.rule import NO_TERM, Rule, Topic, unmodelled
from service.estimator.rules.predicates.models import has_plain_loss, has_served_passes
from service.estimator.values.batches import SequencePacking
from service.estimator.values.losses import Loss
from service.estimator.values.workload import Attention, Engine

_RECORDED = is_true(model.recorded)
_MADE = "a recording of {model.family}"
_ITS_OWN = "families with a module of their own (headroom families)"

_FEW = unmodelled(
    f"one sequence of {_MADE}, which takes other tensors then", "2 sequences and more"
)
RECORDED_SERVING = (
    Rule(
        when=all_of(_RECORDED, is_in(workload.engine, Engine.TRANSFORMERS)),
        require=is_at_most(model.fewest_sequences, workload.num_sequences),
        field=workload.num_sequences.path,
        topic=Topic.LENGTH,
        refusal=_FEW,
        reason=f"one sequence of {_MADE}, which takes other tensors then",
        source=NO_TERM,
    ),
    Rule(
        when=_RECORDED,
        require=satisfies(has_served_passes),
        field="workload.task",
        topic=Topic.FORMATS,
        refusal=unmodelled(
            f"serving {_MADE}, which has no pass with a cache", "task train", _ITS_OWN
        ),
        source=NO_TERM,
    ),
    Rule(
        when=_RECORDED,
        require=is_in(workload.engine, Engine.TRANSFORMERS, Engine.VLLM, Engine.SGLANG),
        topic=Topic.FORMATS,
        refusal=unmodelled(
            f"{{workload.engine}} with {_MADE}: it has models of its own alone",
            *("transformers", "vllm", "sglang"),
        ),
        reason=f"{{workload.engine}} with {_MADE}: it has models of its own alone",
        source="llama.cpp, convert_hf_to_gguf.py; TensorRT-LLM 1.0, tensorrt_llm/_torch/models; "
        "LMDeploy 0.16.0, lmdeploy/turbomind/supported_models.py; TGI 3.3.5, "
        "server/text_generation_server/models/__init__.py",
    ),
    Rule(
        when=all_of(_RECORDED, is_in(workload.engine, Engine.TRANSFORMERS)),
        require=any_of(
            is_in(model.longest_sequence, 0), is_at_most(TOKENS, model.longest_sequence)
        ),
        field=workload.prompt_tokens.path,
        topic=Topic.LENGTH,
        refusal=unmodelled(
            "{workload.prompt_tokens} + {workload.output_tokens} tokens of {model.family}, whose "
            "recording holds up to {model.longest_sequence}, below the window",
            "shorter sequences",
        ),
        reason=f"{{workload.prompt_tokens}} + {{workload.output_tokens}} tokens of {_MADE}, which "
        "holds below the window",
        source=NO_TERM,
    ),
    Rule(
        when=all_of(_RECORDED, is_in(workload.engine, Engine.VLLM, Engine.SGLANG)),
        require=is_true(model.has_plain_layers),
        topic=Topic.FORMATS,
        refusal=unmodelled(
            f"{{workload.engine}} with {_MADE} whose layers keep latent vectors or states, or "
            "have experts",
            "engine transformers",
        ),
        reason=f"{{workload.engine}} with {_MADE} of other layers than plain attention",
        source=NO_TERM,
    ),
    *(
        Rule(
            when=_RECORDED,
            require=is_in(degree, 1),
            topic=Topic.FORMATS,
            refusal=unmodelled(f"{name} of {_MADE}", f"{name} 1", "data_parallel"),
            reason=f"{name} of {_MADE}",
            source=NO_TERM,
        )
        for name, degree in (
            ("tensor_parallel", layout.tensor_parallel),
            ("pipeline_parallel", layout.pipeline_parallel),
        )
    ),
)
"""What every engine asks first."""

RECORDED_ELSEWHERE = (
    Rule(
        require=is_false(model.recorded),
        field=workload.framework.path,
        topic=Topic.METHOD,
        refusal=unmodelled(
            f"framework {{workload.framework}} of {_MADE}, which is of transformers' code",
            "framework transformers",
        ),
        reason=f"framework {{workload.framework}} of {_MADE}",
        source=NO_TERM,
    ),
)
"""What frameworks with models of their own ask first."""

RECORDED_TRAINING = (
    Rule(
        when=_RECORDED,
        require=is_at_most(model.fewest_sequences, workload.micro_batch_size),
        field=workload.micro_batch_size.path,
        topic=Topic.RUNNER,
        refusal=_FEW,
        reason=f"one sequence of {_MADE}, which takes other tensors then",
        source=NO_TERM,
    ),
    Rule(
        when=_RECORDED,
        require=any_of(is_in(workload.loss, Loss.FULL_LOGITS), satisfies(has_plain_loss)),
        field=workload.loss.path,
        topic=Topic.RUNNER,
        refusal=unmodelled(
            f"loss {{workload.loss}} of {_MADE}, which ends in a loss of its own", "full_logits"
        ),
        source=NO_TERM,
    ),
    Rule(
        when=_RECORDED,
        require=is_in(workload.attention, Attention.SDPA, Attention.FLASH),
        topic=Topic.RUNNER,
        refusal=unmodelled(
            f"attention {{workload.attention}} of {_MADE}, which has the kernel that SDPA takes",
            *("sdpa", "flash"),
        ),
        reason=f"attention {{workload.attention}} of {_MADE}, which has the kernel that SDPA takes",
        source=NO_TERM,
    ),
    Rule(
        when=_RECORDED,
        require=is_false(workload.padding_mask),
        topic=Topic.RUNNER,
        refusal=unmodelled(f"padding_mask of {_MADE}, which was made without one", "false"),
        reason=f"padding_mask of {_MADE}, which was made without one",
        source=NO_TERM,
    ),
    Rule(
        when=_RECORDED,
        require=is_in(workload.packing, SequencePacking.NONE),
        topic=Topic.RUNNER,
        refusal=unmodelled(
            f"packing {{workload.packing}} of {_MADE}, which has rows of one sequence", "none"
        ),
        reason=f"packing {{workload.packing}} of {_MADE}, which has rows of one sequence",
        source=NO_TERM,
    ),
    Rule(
        when=_RECORDED,
        require=is_in(workload.frozen, ()),
        topic=Topic.RUNNER,
        refusal=unmodelled(
            f"frozen modules of {_MADE}, which trains all weights or adapters alone",
            *("frozen []", "method lora"),
        ),
        reason=f"frozen modules of {_MADE}, which trains all weights or adapters alone",
        source=NO_TERM,
    ),
    *(
        Rule(
            when=_RECORDED,
            require=is_in(degree, 1),
            topic=Topic.RUNNER,
            refusal=unmodelled(f"{name} of {_MADE}", "data_parallel, with or without shards"),
            reason=f"{name} of {_MADE}",
            source=NO_TERM,
        )
        for name, degree in (
            ("tensor_parallel", layout.tensor_parallel),
            ("context_parallel", layout.context_parallel),
            ("pipeline_parallel", layout.pipeline_parallel),
            ("expert_parallel", layout.expert_parallel),
        )
    ),
)
"""What framework transformers asks first."""
