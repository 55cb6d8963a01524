"""Rules of framework ``torchtitan``, on FSDP2."""

from service.estimator.rules.grammar.conditions import (
    all_of,
    any_of,
    divides,
    is_above,
    is_at_most,
    is_false,
    is_given,
    is_in,
    is_multiple_of,
    is_true,
    satisfies,
)
from service.estimator.rules.grammar.facts import Case
from service.estimator.rules.grammar.fields import layout, model, workload
from service.estimator.rules.grammar.rule import (
    Rule,
    RuleTable,
    ShardingOption,
    Topic,
    invalid,
    unmodelled,
)
from service.estimator.rules.predicates.models import get_training
from service.estimator.rules.tables.megatron_options import make_options_rule
from service.estimator.rules.tables.recorded import RECORDED_ELSEWHERE
from service.estimator.rules.tables.training.contexts import RING_ALONE
from service.estimator.rules.tables.training.evaluations import make_refusal
from service.estimator.rules.tables.training.heads import make_head_rule
from service.estimator.rules.tables.training.pipelines import TORCHTITAN_PIPELINES
from service.estimator.rules.tables.training.precision import AUTOCAST
from service.estimator.rules.tables.training.step import TRAINING_STEP
from service.estimator.rules.tables.training.weights import READS_NO_GGUF
from service.estimator.values.batches import SequencePacking
from service.estimator.values.layout import Sharding
from service.estimator.values.losses import Kernels, Loss, Trainer
from service.estimator.values.workload import Attention, Checkpointing, Method, TrainWorkload

FAMILIES = ("llama", "qwen3")
"""Families of torchtitan's ``models/llama3``, and of the dense ones of ``models/qwen3``."""
LOSS_NOT_COMPILED = ("2024-12-19", "2025-04")
"""Releases between pull requests 755, which turned the compiled loss off, and 1033, which brought
it back.
"""
_APPLY_TP = "torchtitan, torchtitan/models/llama3/infra/parallelize.py, apply_tp"
_DATE_LENGTHS = {len("2025-03"), len("2024-12-26")}


def is_loss_compiled(workload: TrainWorkload) -> bool:
    """Return whether the loss is compiled with the model.

    ``framework_version`` is the date of the release.
    """
    first, last = LOSS_NOT_COMPILED
    return workload.compile and not first <= (workload.framework_version or last) < last


def _is_date(case: Case) -> bool:
    version = get_training(case).framework_version
    if version is None:
        return True
    return len(version) in _DATE_LENGTHS and version[:4].isdigit() and version[4] == "-"


_RULES = (
    READS_NO_GGUF,
    make_head_rule("torchtitan", field="workload.framework"),
    Rule(
        require=is_in(model.family, *FAMILIES),
        topic=Topic.MODEL,
        refusal=unmodelled("{model.family} in torchtitan", *FAMILIES, field="workload.framework"),
        reason="torchtitan's own models are not read here for {model.family}",
        source="torchtitan, torchtitan/models",
    ),
    Rule(
        require=is_in(workload.method, Method.FULL),
        topic=Topic.METHOD,
        refusal=unmodelled("{workload.method} in torchtitan", "full"),
        reason="{workload.method} in torchtitan",
    ),
    Rule(
        require=any_of(
            is_in(layout.sharding, Sharding.FSDP2),
            is_at_most((layout.data_parallel, layout.context_parallel, layout.tensor_parallel), 1),
        ),
        topic=Topic.SHARDING,
        refusal=unmodelled("torchtitan on {layout.sharding} ranks", "fsdp2", "one GPU"),
        reason="torchtitan on {layout.sharding} ranks",
        source="torchtitan, torchtitan/distributed/parallel_dims.py",
    ),
    Rule(
        require=divides(layout.tensor_parallel, model.num_attention_heads),
        reason="tensor_parallel {layout.tensor_parallel} does not divide "
        "{model.num_attention_heads} attention heads",
        source=_APPLY_TP,
    ),
    Rule(
        require=divides(layout.tensor_parallel, model.intermediate_size),
        reason="tensor_parallel {layout.tensor_parallel} does not divide the MLP's "
        "{model.intermediate_size} inner features",
        source=_APPLY_TP,
    ),
    Rule(
        require=divides(layout.tensor_parallel, model.num_key_value_heads),
        reason="tensor_parallel {layout.tensor_parallel} does not divide "
        "{model.num_key_value_heads} key and value heads",
        source=f"{_APPLY_TP}: heads are never replicated",
    ),
    Rule(
        when=is_true(model.tied),
        require=is_in(layout.tensor_parallel, 1),
        topic=Topic.MODEL,
        refusal=unmodelled(
            "tensor_parallel of a head that is the embedding's table",
            *("1", "models with a head of their own"),
        ),
        reason="tensor_parallel {layout.tensor_parallel} of a head that is the embedding's table",
    ),
    Rule(
        when=is_above(layout.tensor_parallel, 1),
        require=is_in(workload.loss, Loss.FULL_LOGITS),
        topic=Topic.VOCABULARY,
        refusal=unmodelled(
            "loss {workload.loss} over a vocabulary that tensor_parallel ranks share", "full_logits"
        ),
        reason="loss {workload.loss} over a vocabulary that tensor_parallel ranks share",
    ),
    Rule(
        when=all_of(is_above(layout.tensor_parallel, 1), is_true(workload.compile)),
        require=is_given(workload.framework_version),
        reason="a compiled loss over a vocabulary that tensor_parallel ranks share: releases from "
        "2024-12-19 to 2025-04 compile none",
        source="torchtitan, pull requests 755 and 1033",
    ),
    Rule(
        when=is_above(layout.tensor_parallel, 1),
        require=satisfies(
            lambda case: not is_loss_compiled(get_training(case)),
            workload.framework_version,
            workload.compile,
        ),
        topic=Topic.VOCABULARY,
        refusal=unmodelled(
            "a compiled loss over a vocabulary that tensor_parallel ranks share, of which "
            "inductor keeps what it chooses",
            "framework_version from {} to {}, whose loss is not compiled".format(
                *LOSS_NOT_COMPILED
            ),
            "compile false",
        ),
        source="torchtitan, pull requests 755 and 1033",
    ),
    RING_ALONE,
    *TORCHTITAN_PIPELINES,
    Rule(
        require=is_multiple_of(
            workload.sequence_length, (2, layout.context_parallel, layout.tensor_parallel)
        ),
        reason="sequence_length {workload.sequence_length} is no multiple of twice "
        "{layout.context_parallel} context_parallel x {layout.tensor_parallel} tensor_parallel "
        "ranks",
        source="torchtitan, torchtitan/distributed/parallel_dims.py, seq_len_divisor",
    ),
    Rule(
        when=is_above((layout.context_parallel, layout.tensor_parallel), 1),
        require=is_multiple_of(
            workload.sequence_length, (2, layout.context_parallel, layout.tensor_parallel)
        ),
        topic=Topic.SLICES,
        refusal=invalid(
            lambda case: (
                f"sequence_length {get_training(case).sequence_length} is no multiple of "
                f"{2 * case.layout.context_parallel * case.layout.tensor_parallel}, twice the "
                "context_parallel x tensor_parallel ranks (torchtitan's seq_len_divisor)"
            )
        ),
        source="torchtitan, torchtitan/distributed/parallel_dims.py, seq_len_divisor",
    ),
    Rule(
        require=is_false(workload.reentrant_checkpointing),
        topic=Topic.REENTRANT,
        refusal=invalid(
            "torchtitan's checkpoints are not reentrant "
            "(torchtitan/distributed/activation_checkpoint.py)"
        ),
        reason="torchtitan's checkpoints are not reentrant",
        source="torchtitan/distributed/activation_checkpoint.py",
    ),
    make_options_rule(Topic.WORDS),
    Rule(
        require=is_false(workload.padding_mask),
        topic=Topic.WORDS,
        refusal=invalid(
            "torchtitan trains on packed sequences without a padding mask; drop padding_mask"
        ),
        reason="torchtitan trains on packed sequences without a padding mask",
        source="torchtitan, torchtitan/hf_datasets/text_datasets.py",
    ),
    Rule(
        require=is_in(workload.attention, Attention.SDPA, Attention.FLASH),
        topic=Topic.ATTENTION,
        refusal=unmodelled("attention {workload.attention} in torchtitan", "sdpa", "flash"),
        reason="attention {workload.attention} in torchtitan",
        source="torchtitan, torchtitan/models/attention.py",
    ),
    Rule(
        require=is_in(workload.trainer, Trainer.SUPERVISED),
        topic=Topic.LOSS,
        refusal=unmodelled("trainer {workload.trainer} in torchtitan", "supervised"),
        reason="trainer {workload.trainer} in framework torchtitan",
    ),
    make_refusal("torchtitan"),
    Rule(
        require=is_in(workload.packing, SequencePacking.NONE),
        topic=Topic.LOSS,
        refusal=unmodelled(
            "packing {workload.packing} in torchtitan, whose sequences are packed already", "none"
        ),
        reason="packing {workload.packing} in framework torchtitan, which packs by itself",
    ),
    Rule(
        require=is_in(workload.sequence_lengths, ()),
        topic=Topic.LOSS,
        refusal=unmodelled(
            "sequence_lengths in torchtitan, whose sequences are packed already", "none"
        ),
        reason="sequence_lengths in framework torchtitan, whose sequences are packed already",
    ),
    Rule(
        require=is_in(workload.kernels, Kernels.TORCH),
        topic=Topic.LOSS,
        refusal=unmodelled("kernels {workload.kernels} in torchtitan", "torch"),
        reason="kernels {workload.kernels} in framework torchtitan, which has its own",
    ),
    Rule(
        require=is_in(workload.loss, Loss.FULL_LOGITS, Loss.CHUNKED),
        topic=Topic.LOSS,
        refusal=unmodelled("loss {workload.loss} in torchtitan", "full_logits", "chunked"),
        reason="loss {workload.loss} in torchtitan",
        source="torchtitan, torchtitan/components/loss.py",
    ),
    Rule(
        when=is_true(workload.compile),
        require=is_in(
            workload.activation_checkpointing, Checkpointing.SELECTIVE, Checkpointing.FULL
        ),
        topic=Topic.SWITCHES,
        refusal=unmodelled(
            "compile without checkpointing: what inductor's partitioner keeps is its own choice",
            "activation_checkpointing selective, full",
            field=workload.compile.path,
        ),
        reason="compile without checkpointing: what inductor's partitioner keeps is its own choice",
    ),
    Rule(
        when=is_false(workload.compile),
        require=is_false(workload.float8),
        topic=Topic.SWITCHES,
        refusal=unmodelled("float8 without compile", "float8 with compile"),
        reason="float8 without compile",
    ),
    Rule(
        require=satisfies(_is_date, workload.framework_version),
        topic=Topic.SWITCHES,
        refusal=invalid(
            lambda case: (
                f"framework_version {get_training(case).framework_version!r} of "
                "torchtitan is a date, such as 2025-03 or 2024-12-26"
            )
        ),
        source="torchtitan, its tags and nightly wheels",
    ),
)
TRAIN_TORCHTITAN = RuleTable(
    name="train_torchtitan",
    rules=(*RECORDED_ELSEWHERE, *_RULES),
    beside=(*TRAINING_STEP, *AUTOCAST),
    topics=(
        *(
            Topic.METHOD,
            Topic.ONE_STAGE,
            Topic.STAGES,
            Topic.SHARDING,
            Topic.WORDS,
            Topic.REENTRANT,
        ),
        *(Topic.ATTENTION, Topic.LOSS, Topic.SWITCHES, Topic.VOCABULARY, Topic.SLICES),
    ),
    sharding_options=(
        ShardingOption(
            sharding=Sharding.FSDP2,
            zero_stages=(3,),
            source="torchtitan, docs/fsdp.md: fully_shard on every block",
        ),
    ),
)
TORCHTITAN_MODELS = RuleTable(name="train_torchtitan", rules=_RULES, topics=(Topic.MODEL,))
"""What torchtitan's own models must keep to, once the step itself is known to run."""
