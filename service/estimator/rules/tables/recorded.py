"""Rules of models whose passes were recorded from transformers' own code.

A recording has the operations of the kernels, batches and losses that it was made with.
"""

from service.estimator.rules.grammar.conditions import (
    all_of,
    any_of,
    is_at_most,
    is_false,
    is_in,
    is_not_in,
    is_true,
    satisfies,
)
from service.estimator.rules.grammar.fields import TOKENS, layout, model, workload
from service.estimator.rules.grammar.rule import (
    NO_TERM,
    Refusal,
    Rule,
    Topic,
    invalid,
    unmodelled,
)
from service.estimator.rules.predicates.models import (
    get_serving,
    has_plain_loss,
    has_served_passes,
)
from service.estimator.rules.predicates.recorded import (
    describe_missing,
    describe_unknown,
    describe_unsuited,
    divides_layers,
    explain_undivided,
    has_engine_model,
    has_known_layers,
    has_recorded_layers,
    has_rows_enough,
    list_serving_engines,
    suits_transformers_code,
    wraps_every_layer,
)
from service.estimator.values.batches import SequencePacking
from service.estimator.values.layout import Sharding
from service.estimator.values.losses import Loss
from service.estimator.values.workload import Attention, Checkpointing, Engine

_RECORDED = is_true(model.recorded)
_MADE = "a recording of {model.family}"
_ITS_OWN = "families with a module of their own (headroom families)"

_FEW = unmodelled(
    f"one sequence of {_MADE}, which takes other tensors then", "2 sequences and more"
)
_KERNELS = Rule(
    when=_RECORDED,
    require=is_in(workload.attention, Attention.SDPA, Attention.FLASH),
    topic=Topic.RUNNER,
    refusal=unmodelled(
        f"attention {{workload.attention}} of {_MADE}, which has the kernel that SDPA takes",
        *("sdpa", "flash"),
    ),
    reason=f"attention {{workload.attention}} of {_MADE}, which has the kernel that SDPA takes",
    source=NO_TERM,
)
RECORDED_SERVING = (
    _KERNELS,
    Rule(
        when=_RECORDED,
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
            f"serving {_MADE}, which has no pass that serves", "task train", _ITS_OWN
        ),
        source=NO_TERM,
    ),
    Rule(
        when=_RECORDED,
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
        when=_RECORDED,
        require=is_in(layout.tensor_parallel, 1),
        topic=Topic.FORMATS,
        refusal=unmodelled(
            f"tensor_parallel of {_MADE} in engine transformers",
            *("tensor_parallel 1", "engine vllm", "data_parallel"),
        ),
        reason=f"tensor_parallel of {_MADE}",
        source=NO_TERM,
    ),
)
"""What engine transformers asks first."""

RECORDED_ENGINES = (
    Rule(
        when=_RECORDED,
        require=satisfies(has_engine_model, workload.engine, workload.engine_version),
        field=workload.engine.path,
        topic=Topic.FORMATS,
        refusal=Refusal(text=describe_missing, modelled=list_serving_engines),
        reason=describe_missing,
        source="the engines' registries (service/estimator/model/recorded/engine_models.json)",
    ),
    Rule(
        when=_RECORDED,
        require=satisfies(has_known_layers),
        field=workload.engine.path,
        topic=Topic.FORMATS,
        refusal=Refusal(
            text=lambda case: (
                f"{get_serving(case).engine} with a recording of {case.model.family}, which has "
                f"{describe_unknown(case)}"
            ),
            modelled=("engine transformers",),
        ),
        reason=lambda case: f"a recording of {case.model.family} with {describe_unknown(case)}",
        source=NO_TERM,
    ),
    Rule(
        when=_RECORDED,
        require=satisfies(suits_transformers_code, workload.engine, layout.tensor_parallel),
        field=workload.engine.path,
        topic=Topic.FORMATS,
        refusal=Refusal(
            text=lambda case: (
                f"{get_serving(case).engine} with {case.model.family}, of which it has no model "
                f"of its own: it runs transformers' code, and its {describe_unsuited(case)}"
            ),
            modelled=list_serving_engines,
        ),
        reason=lambda case: (
            f"{case.model.family} by transformers' code, and its {describe_unsuited(case)}"
        ),
        source="vLLM 0.33.0, model_executor/models/transformers/base.py",
    ),
    Rule(
        when=all_of(_RECORDED, is_not_in(workload.engine, Engine.LLAMA_CPP)),
        require=satisfies(divides_layers, layout.tensor_parallel, workload.engine),
        field=layout.tensor_parallel.path,
        topic=Topic.FORMATS,
        refusal=invalid(explain_undivided),
        reason=explain_undivided,
        source="vLLM 0.33.0, model_executor/layers/linear.py, divide",
    ),
)
"""What engines of their own ask first."""

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
        require=is_true(model.trains),
        field="workload.task",
        topic=Topic.RUNNER,
        refusal=unmodelled(
            f"training {_MADE}, whose class {{model.tree.recorded.model_class}} in transformers "
            "computes no loss",
            "task serve",
            "a config whose architectures name a class with a head",
        ),
        reason=f"training {_MADE}, whose class computes no loss",
        source=NO_TERM,
    ),
    Rule(
        when=_RECORDED,
        require=satisfies(has_rows_enough, workload.micro_batch_size, workload.packing),
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
    _KERNELS,
    Rule(
        when=all_of(_RECORDED, is_not_in(workload.activation_checkpointing, Checkpointing.NONE)),
        require=satisfies(has_recorded_layers),
        field=workload.activation_checkpointing.path,
        topic=Topic.CHECKPOINTING,
        refusal=unmodelled(
            f"activation_checkpointing {{workload.activation_checkpointing}} of {_MADE}, which "
            "runs as one program without layers to recompute",
            "none",
        ),
        reason=f"checkpoints of {_MADE}, which runs as one program without layers to recompute",
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
        require=any_of(
            is_in(workload.packing, SequencePacking.NONE),
            is_in(workload.attention, Attention.FLASH),
        ),
        field=workload.packing.path,
        topic=Topic.RUNNER,
        refusal=unmodelled(
            f"packing {{workload.packing}} of {_MADE} under a mask, which was made without one",
            *("none", "attention flash"),
        ),
        reason=f"packing {{workload.packing}} of {_MADE} under a mask",
        source="transformers 5.23 modeling_flash_attention_utils.py, _is_packed_sequence: the "
        "lengths of a row's sequences go to flash attention, others get a mask",
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
    Rule(
        when=all_of(_RECORDED, is_in(layout.sharding, Sharding.FSDP1, Sharding.FSDP2)),
        require=satisfies(wraps_every_layer),
        field=layout.sharding.path,
        topic=Topic.RUNNER,
        refusal=unmodelled(
            f"sharding {{layout.sharding}} of {_MADE}, whose encoder's layers are no units of "
            "their own",
            *("sharding deepspeed", "sharding ddp"),
        ),
        reason=f"units of {_MADE}, whose encoder's layers are a part of its root",
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
