"""Rules of batches whose sequences share rows or differ in length."""

from service.estimator.rules.grammar.conditions import (
    all_of,
    any_of,
    is_false,
    is_in,
    is_not_in,
    satisfies,
)
from service.estimator.rules.grammar.fields import workload
from service.estimator.rules.grammar.rule import Rule, Topic, invalid, unmodelled
from service.estimator.rules.predicates.models import is_packable
from service.estimator.values.batches import SequencePacking
from service.estimator.values.losses import Loss, Trainer

_PACKED = is_not_in(workload.packing, SequencePacking.NONE)

_SFT = "trl 1.16 trainer/sft_trainer.py"

PACKING = (
    Rule(
        when=_PACKED,
        require=satisfies(is_packable),
        field=workload.packing.path,
        topic=Topic.LENGTHS,
        refusal=unmodelled(
            "packing {workload.packing} of {model.family}", "decoders of text with attention alone"
        ),
        source=_SFT,
    ),
    Rule(
        when=_PACKED,
        require=is_false(workload.padding_mask),
        field=workload.packing.path,
        topic=Topic.LENGTHS,
        refusal=invalid(
            "packing {workload.packing} leaves no padding, and padding_mask is given: drop one"
        ),
        source=f"{_SFT}, DataCollatorForLanguageModeling",
    ),
    Rule(
        when=_PACKED,
        require=any_of(
            is_in(workload.trainer, Trainer.SUPERVISED),
            all_of(
                is_in(workload.trainer, Trainer.GRPO),
                is_in(workload.loss, Loss.FLASH_CROSS_ENTROPY, Loss.FULL_LOGITS),
            ),
        ),
        field=workload.packing.path,
        topic=Topic.LENGTHS,
        refusal=invalid(
            "packing {workload.packing} with trainer {workload.trainer}, which pads its "
            "batches: say packing none"
        ),
        source="trl 1.16 trainer/dpo_trainer.py: padding_free is currently disabled",
    ),
)
