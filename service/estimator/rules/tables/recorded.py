"""Rules of models whose passes were recorded from transformers' own code.

A recording has the operations of the kernels, batches and losses that it was made with.
"""

from service.estimator.rules.grammar.conditions import is_false, is_in, is_true
from service.estimator.rules.grammar.fields import layout, model, workload
from service.estimator.rules.grammar.rule import NO_TERM, Rule, Topic, unmodelled
from service.estimator.values.batches import SequencePacking
from service.estimator.values.losses import Loss, Trainer
from service.estimator.values.workload import Attention

_RECORDED = is_true(model.recorded)
_MADE = "a recording of {model.family}"
_ITS_OWN = "families with a module of their own (headroom families)"

RECORDED_SERVING = (
    Rule(
        require=is_false(model.recorded),
        field="workload.task",
        topic=Topic.FORMATS,
        refusal=unmodelled(
            f"serving {_MADE}, which has training passes alone", "task train", _ITS_OWN
        ),
        reason=f"serving {_MADE}, which has training passes alone",
        source=NO_TERM,
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
        require=is_in(workload.trainer, Trainer.SUPERVISED),
        topic=Topic.RUNNER,
        refusal=unmodelled(f"trainer {{workload.trainer}} of {_MADE}", "supervised", _ITS_OWN),
        reason=f"trainer {{workload.trainer}} of {_MADE}",
        source=NO_TERM,
    ),
    Rule(
        when=_RECORDED,
        require=is_in(workload.loss, Loss.FULL_LOGITS),
        topic=Topic.RUNNER,
        refusal=unmodelled(
            f"loss {{workload.loss}} of {_MADE}, which ends in the model's own", "full_logits"
        ),
        reason=f"loss {{workload.loss}} of {_MADE}, which ends in the model's own",
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
