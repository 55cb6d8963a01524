"""Rules of models with another head than a language model's."""

from service.estimator.rules.grammar.conditions import (
    all_of,
    is_at_most,
    is_in,
    is_not_in,
)
from service.estimator.rules.grammar.facts import Case
from service.estimator.rules.grammar.fields import layout, model, workload
from service.estimator.rules.grammar.rule import Rule, Topic, invalid, unmodelled
from service.estimator.values.batches import SequencePacking
from service.estimator.values.heads import Head
from service.estimator.values.losses import Kernels, Loss, Trainer

LANGUAGE_MODEL = is_in(model.head, "")
_OTHER_HEAD = is_not_in(model.head, "")
_HEADS = "transformers 5.23 modeling_layers.py, loss/loss_utils.py"


def _describe_head(case: Case) -> str:
    model = case.model
    if not model.head:
        return f"no class for it in transformers: {model.family} has none for scores of sequences"
    return f"head {model.head} with {model.num_labels} labels: say head reward"


HEADS = (
    Rule(
        when=all_of(_OTHER_HEAD, is_not_in(workload.trainer, Trainer.REWARD)),
        require=is_in(workload.loss, Loss.FULL_LOGITS),
        field=workload.loss.path,
        topic=Topic.LABELS,
        refusal=invalid(
            "loss {workload.loss} is over a vocabulary, and head {model.head} has none: leave "
            "loss out"
        ),
        reason="loss {workload.loss} of head {model.head}, which has no vocabulary",
        source=_HEADS,
    ),
    Rule(
        when=is_not_in(workload.trainer, Trainer.SUPERVISED, Trainer.REWARD),
        require=LANGUAGE_MODEL,
        field=workload.trainer.path,
        topic=Topic.LABELS,
        refusal=invalid(
            "trainer {workload.trainer} compares what a language model writes, and this one has "
            "head {model.head}: say head causal_lm"
        ),
        source="trl 1.16 trainer/dpo_trainer.py",
    ),
    Rule(
        when=is_in(workload.trainer, Trainer.REWARD),
        require=all_of(
            is_in(model.head, Head.SEQUENCE_CLASSIFICATION.value), is_in(model.num_labels, 1)
        ),
        field=workload.trainer.path,
        topic=Topic.LABELS,
        refusal=invalid(
            lambda case: (
                f"trainer reward trains one score of a sequence, and this model has "
                f"{_describe_head(case)}"
            )
        ),
        source="trl 1.16 trainer/reward_trainer.py",
    ),
    Rule(
        when=_OTHER_HEAD,
        require=is_in(workload.kernels, Kernels.TORCH),
        field=workload.kernels.path,
        topic=Topic.LABELS,
        refusal=unmodelled(
            "kernels {workload.kernels} of head {model.head}", "kernels torch", "language models"
        ),
        reason="kernels {workload.kernels} of head {model.head}",
    ),
    Rule(
        when=all_of(_OTHER_HEAD, is_in(workload.trainer, Trainer.SUPERVISED)),
        require=is_in(workload.packing, SequencePacking.NONE),
        field=workload.packing.path,
        topic=Topic.LABELS,
        refusal=unmodelled(
            "packing {workload.packing} of head {model.head}, which reads single sequences",
            "packing none",
        ),
    ),
    Rule(
        when=all_of(_OTHER_HEAD, is_not_in(workload.trainer, Trainer.REWARD)),
        require=is_at_most(layout.tensor_parallel, 1),
        topic=Topic.LABELS,
        refusal=unmodelled(
            "tensor_parallel {layout.tensor_parallel} of head {model.head}", "tensor_parallel 1"
        ),
        reason="tensor_parallel {layout.tensor_parallel} of head {model.head}",
    ),
)
"""What a head of another task leaves of a step's words."""


def make_head_rule(name: str, *, field: str) -> Rule:
    """Return the rule that a framework trains language models alone."""
    return Rule(
        require=LANGUAGE_MODEL,
        field=field,
        topic=Topic.MODEL,
        refusal=unmodelled(
            f"head {{model.head}} in {name}", "head causal_lm", "framework transformers"
        ),
        reason=f"{name} trains language models, and this one has head {{model.head}}",
    )
