"""Common rules of thumb, compared with the estimate.

Each says why it differs.
"""

from collections.abc import Iterator

from service.estimator.memory.trained import Shards
from service.estimator.model.recorded.items import get_reads
from service.estimator.values.layout import Layout
from service.estimator.values.memo import get_or_make_of
from service.estimator.values.precision import Precision
from service.estimator.values.result import Estimate
from service.estimator.values.units import ceil_div
from service.estimator.values.workload import (
    Checkpointing,
    Method,
    Quantization,
    ServeWorkload,
    TrainWorkload,
    Workload,
)
from service.planner.fit.article_rules import iter_article_rules, iter_time_rules
from service.planner.fit.evaluator import Evaluator
from service.planner.fit.llama_factory import SIZES_B, SOURCE, TableRow, find_column, find_row
from service.planner.fit.rule_of_thumb import RuleBytes, RuleOfThumb, RulesOfThumb

BITS = 8
"""Of a byte."""
HALF_BYTES = 2
"""Bytes of a parameter in 16 bits."""
OPTIMIZER_BYTES = 12
"""fp32 master copy and Adam's two fp32 moments: the K of ZeRO (arXiv:1910.02054, section 3.1)."""
POLICIES = (
    (
        16,
        "16-bit weights and gradients, fp32 master copy and moments (ZeRO, arXiv:1910.02054)",
        "ZeRO, arXiv:1910.02054, section 3.1",
    ),
    (
        18,
        "a persistent fp32 gradient in place of the 16-bit one (Megatron-LM)",
        "Megatron-LM, docs, distributed optimizer",
    ),
    (
        20,
        "a 16-bit gradient and an fp32 one beside it (DeepSpeed with bf16)",
        "DeepSpeed, runtime/bf16_optimizer.py",
    ),
)
INFERENCE_TENTHS = 12
DENSE, QUADRATIC, CHECKPOINTED, REPLICATED = 34, 5, 2, 10
"""Bytes per token and hidden unit, per attention score and head, and per token and hidden unit when
layers are recomputed; of the 34, 10 are norms and dropouts that tensor parallelism alone does not
split.
"""


def list_rules_of_thumb(
    evaluator: Evaluator, workload: Workload, layout: Layout, estimate: Estimate
) -> tuple[RuleOfThumb, ...]:
    """Return the rules that people would use for this workload.

    Each is compared with the estimate.
    """
    if isinstance(workload, ServeWorkload):
        rule = _estimate_inference(evaluator, workload, layout, estimate)
        return (rule.compare(estimate.device_bytes),)
    # Of an estimate the GPU's memory changes none of these: its instants are made once.
    rules = get_or_make_of(
        evaluator.rules,
        (evaluator.architecture, workload, layout, estimate.instants, estimate.checkpoint),
        lambda: RulesOfThumb(_iter_rule_bytes(evaluator, workload, layout, estimate)),
    )
    comparisons = rules.compare(estimate.device_bytes)
    if workload.method is Method.QLORA:
        return (*comparisons, *iter_time_rules(evaluator, workload, layout, estimate))
    return comparisons


def _iter_rule_bytes(
    evaluator: Evaluator, workload: TrainWorkload, layout: Layout, estimate: Estimate
) -> Iterator[RuleBytes]:
    if workload.method is Method.FULL:
        yield from _iter_bytes_per_parameter(evaluator, workload.precision, layout)
    else:
        yield _estimate_frozen(evaluator, workload)
    yield from _iter_llama_factory(evaluator, workload, estimate)
    yield from _iter_activations(evaluator, workload, layout, estimate)
    yield from iter_article_rules(evaluator, workload, layout, estimate)


def _estimate_inference(
    evaluator: Evaluator, workload: ServeWorkload, layout: Layout, estimate: Estimate
) -> RuleBytes:
    weights = evaluator.architecture.weight_bytes(workload.weight_dtype) // _count_weight_ranks(
        layout
    )
    if (
        workload.quantization is not Quantization.NONE
        or evaluator.architecture.quantization is not None
    ):
        weights = sum(part.bytes for part in estimate.components if part.name == "weights")
    why = (
        "a fifth on top of the weights stands for everything else; the cache grows with sequences "
        "and tokens, the rule does not"
    )
    rule_bytes = weights * INFERENCE_TENTHS // 10
    source = "EleutherAI, Transformer Math 101, inference"
    return RuleBytes(name="1.2 x weights", bytes=rule_bytes, why=why, source=source)


def _estimate_frozen(evaluator: Evaluator, workload: TrainWorkload) -> RuleBytes:
    total = evaluator.architecture.parameter_counts().total
    why = (
        "it counts the frozen base model and neither adapters, nor activations and logits, which "
        "decide the peak"
    )
    if workload.method is Method.QLORA:
        rule_bytes = total * workload.quantization_bits // BITS
        name = f"{workload.quantization_bits / BITS:g} bytes per parameter (QLoRA)"
        return RuleBytes(name=name, bytes=rule_bytes, why=why, source="arXiv:2305.14314")
    name = "2 bytes per parameter (LoRA)"
    return RuleBytes(name=name, bytes=total * HALF_BYTES, why=why, source="arXiv:2106.09685")


def _iter_llama_factory(
    evaluator: Evaluator, workload: TrainWorkload, estimate: Estimate
) -> Iterator[RuleBytes]:
    """Yield the estimate of LLaMA-Factory's hardware table, where it has a row."""
    model = evaluator.architecture
    if get_reads(model) is not None:
        return
    counts = model.parameter_counts()
    frozen = sum(counts.by_module.get(kind, 0) for kind in workload.frozen)
    row = find_row(
        workload,
        trained=1 - frozen / counts.total,
        packed_bits=None if model.quantization is None else model.quantization.bits,
    )
    if row is None:
        return
    rule_bytes, why = _read_row(row, counts.total, estimate.num_gpus)
    yield RuleBytes(name="LLaMA-Factory's table", bytes=rule_bytes, why=why, source=SOURCE)


def _read_row(row: TableRow, total: int, num_gpus: int) -> tuple[int, str]:
    """Return a row's bytes of a GPU, and how they are read."""
    column = find_column(total)
    read = "the last column" if column is None else f"the column of {SIZES_B[column]}B"
    where = "" if num_gpus == 1 else f", spread over {num_gpus} GPUs"
    why = (
        f"{read}{where}; its README's row, estimated whatever the batch, the sequence or the "
        f"vocabulary: {row.quote()}"
    )
    return row.estimate_bytes(total) // num_gpus, why


def _iter_bytes_per_parameter(
    evaluator: Evaluator, precision: Precision, layout: Layout
) -> Iterator[RuleBytes]:
    num_parameters = evaluator.architecture.parameter_counts().total
    total, shards = (
        ceil_div(num_parameters, _count_weight_ranks(layout)),
        Shards.from_layout(layout, precision),
    )
    bytes_per_param = precision.bytes_per_param
    shared = ceil_div(total * HALF_BYTES, shards.weights) + ceil_div(
        total * OPTIMIZER_BYTES, shards.optimizer
    )
    for num_bytes, policy, source in POLICIES:
        gradients = num_bytes - HALF_BYTES - OPTIMIZER_BYTES
        rule_bytes = shared + ceil_div(total * gradients, shards.gradients)
        prefix = (
            "the sum of"
            if num_bytes == bytes_per_param
            else f"{precision.name} has {bytes_per_param}, not"
        )
        why = f"{prefix} {policy}; activations, logits, temporaries and the context come on top"
        name = f"{num_bytes} bytes per parameter"
        yield RuleBytes(name=name, bytes=rule_bytes, why=why, source=source)


def _iter_activations(
    evaluator: Evaluator, workload: TrainWorkload, layout: Layout, estimate: Estimate
) -> Iterator[RuleBytes]:
    """Yield Korthikanti's formulas against the estimated activations.

    Against the instant that has the most of them, since a peak early in forward or in the
    optimizer's step has next to none (arXiv:2205.05198, equations 1, 2 and 4).

    A pipeline's first stage holds as many micro-batches as there are stages, if the step has as
    many.
    """
    activation_bytes = max(
        (instant.parts.get("activations", 0) for instant in estimate.instants), default=0
    )
    if not activation_bytes or get_reads(evaluator.architecture) is not None:
        return
    spec, ranks = evaluator.architecture.spec, layout.tensor_parallel
    tokens = workload.micro_batch_size * workload.sequence_length // layout.context_parallel
    in_flight = min(layout.pipeline_parallel, workload.gradient_accumulation_steps)
    if workload.activation_checkpointing is Checkpointing.FULL:
        name, per_layer = "2sbh per layer", CHECKPOINTED * tokens * spec.hidden_size
        why = "it counts the kept inputs of the layers and not the layer that is being recomputed"
    else:
        name = "34sbh + 5as²b per layer"
        scores = QUADRATIC * spec.num_attention_heads * workload.sequence_length * tokens // ranks
        replicated = 0 if layout.sequence_parallel or ranks == 1 else REPLICATED
        per_layer = (
            replicated + (DENSE - replicated) // ranks
        ) * tokens * spec.hidden_size + scores
        why = (
            "it counts GPT layers with dropout and stored scores; flash stores no scores, norms in "
            "fp32 store more"
        )
    rule_bytes = (
        per_layer * evaluator.architecture.num_hidden_layers * in_flight // layout.pipeline_parallel
    )
    yield RuleBytes(
        name=name,
        bytes=rule_bytes,
        our_bytes=activation_bytes,
        why=f"against our activations where they are the most: {why}",
        source="arXiv:2205.05198, equations 1, 2 and 4",
    )


def _count_weight_ranks(layout: Layout) -> int:
    """Return the ranks that split one copy of the weights.

    ZeRO is left out.
    """
    return layout.tensor_parallel * layout.pipeline_parallel
