"""Numbers that well-known articles quote, beside ours.

Each names its article, and what the article leaves out.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from service.estimator.memory.trained import Shards
from service.estimator.model.recorded.items import get_reads
from service.estimator.values.errors import EstimatorError
from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.result import EVALUATION, Estimate
from service.estimator.values.units import ceil_div
from service.estimator.values.workload import Checkpointing, Method, TrainWorkload
from service.planner.fit.evaluator import Evaluator
from service.planner.fit.rule_of_thumb import RuleBytes, RuleOfThumb, compute_deviation

_ZERO = "ZeRO, arXiv:1910.02054"
_GPT_2_ACTIVATIONS = 12
"""Elements of a layer per token and hidden unit (ZeRO, footnote 3): 60 GB of GPT-2 of 1.5 billion
parameters at 32 x 1,024 tokens.
"""
_HALF, _FULL = 2, 4
"""Bytes of 16 and of 32 bits."""
_STATES = 12
"""fp32 master weights and moments: ZeRO's K."""
_CHECKPOINT = 10
"""16-bit weights and Adam's two moments in fp32: 700 GB of 70 billion parameters."""
_QLORA_TIME = 1.39
"""Runtime of QLoRA over LoRA (S. Raschka, "Practical Tips for Finetuning LLMs Using LoRA")."""


def iter_article_rules(
    evaluator: Evaluator, workload: TrainWorkload, layout: Layout, estimate: Estimate
) -> Iterator[RuleBytes]:
    """Yield the bytes that articles say of a training workload."""
    if workload.method is Method.FULL:
        yield from _iter_stages(evaluator, layout)
        yield from _iter_gradients(evaluator, workload, layout, estimate)
    yield from _iter_activations(evaluator, workload, layout, estimate)
    yield from _iter_checkpoints(evaluator, workload, estimate)


def _iter_stages(evaluator: Evaluator, layout: Layout) -> Iterator[RuleBytes]:
    """Yield the line of ZeRO's figure 1, where states are sharded."""
    rule = _read_stage(evaluator.architecture.parameter_counts().total, layout)
    if rule is None:
        return
    text, rule_bytes = rule
    yield _make(
        f"ZeRO-{layout.zero_stage}: {text} bytes per parameter",
        rule_bytes,
        None,
        "it leaves out activations, logits, gathered parameters, buckets and the context, and "
        "counts parameters of 16 bits with fp32 states",
        f"{_ZERO}, figure 1",
    )


def _read_stage(num_parameters: int, layout: Layout) -> tuple[str, int] | None:
    """Return a parameter's bytes in words, and a GPU's.

    None where nothing is sharded.
    """
    shards, ranks = Shards.from_layout(layout), layout.shards
    replicated = sum(
        size
        for size, number in (
            (_HALF, shards.weights),
            (_HALF, shards.gradients),
            (_STATES, shards.optimizer),
        )
        if number == 1
    )
    if ranks == 1 or replicated == 2 * _HALF + _STATES:
        return None
    total = ceil_div(num_parameters, layout.tensor_parallel * layout.pipeline_parallel)
    sharded = 2 * _HALF + _STATES - replicated
    rule_bytes = total * replicated + ceil_div(total * sharded, ranks)
    text = f"{replicated} + {sharded} / {ranks}" if replicated else f"{sharded} / {ranks}"
    return text, rule_bytes


def _iter_gradients(
    evaluator: Evaluator, workload: TrainWorkload, layout: Layout, estimate: Estimate
) -> Iterator[RuleBytes]:
    """Yield the gradients of several micro batches: 2 bytes each, or 6."""
    gradient_bytes = sum(part.bytes for part in estimate.components if part.name == "gradients")
    if workload.gradient_accumulation_steps == 1 or not gradient_bytes:
        return
    total = ceil_div(
        evaluator.architecture.parameter_counts().total,
        layout.tensor_parallel * layout.pipeline_parallel * Shards.from_layout(layout).gradients,
    )
    rows = (
        (
            _HALF,
            "it adds up gradients of 16 bits in place, and leaves out policies that add up in fp32",
            f"{_ZERO}, section 3.1",
        ),
        (
            _HALF + _FULL,
            "fp32 sums beside 16-bit gradients, where other policies add up in place",
            "DeepSpeed, runtime/bf16_optimizer.py, fp32_groups_gradients",
        ),
    )
    for size, left_out, source in rows:
        name = f"{size}Φ of gradients under accumulation"
        yield _make(
            name, total * size, gradient_bytes, f"against our gradients: {left_out}", source
        )


def _iter_activations(
    evaluator: Evaluator, workload: TrainWorkload, layout: Layout, estimate: Estimate
) -> Iterator[RuleBytes]:
    """Yield ZeRO's activations of GPT-2, where nothing is computed again."""
    activation_bytes = sum(part.bytes for part in estimate.components if part.name == "activations")
    reads_text = get_reads(evaluator.architecture) is None
    of_step = bool(activation_bytes) and reads_text and estimate.peak_instant != EVALUATION
    if not of_step or workload.activation_checkpointing is not Checkpointing.NONE:
        return
    model = evaluator.architecture
    ranks = layout.tensor_parallel * layout.pipeline_parallel * layout.context_parallel
    tokens = workload.num_sequences * workload.sequence_length
    layers = model.num_hidden_layers * model.spec.hidden_size
    yield _make(
        "12 x hidden x batch x length x layers",
        _GPT_2_ACTIVATIONS * _HALF * tokens * layers // ranks,
        activation_bytes,
        "against our activations at the peak: it is a GPT-2 in 16 bits, 60 GB at 1.5 billion "
        "parameters, and leaves out attention scores, norms and losses in fp32 and other widths "
        "of the MLP",
        f"{_ZERO}, section 3.2",
    )


def _iter_checkpoints(
    evaluator: Evaluator, workload: TrainWorkload, estimate: Estimate
) -> Iterator[RuleBytes]:
    """Yield the disk of one checkpoint, and of several."""
    checkpoint = estimate.checkpoint
    if checkpoint is None or not checkpoint.total:
        return
    if workload.method is Method.FULL:
        yield _make(
            "10 bytes per parameter on disk",
            evaluator.architecture.parameter_counts().total * _CHECKPOINT,
            checkpoint.total,
            "against our checkpoint of the whole job: 700 GB of 70 billion parameters are 16-bit "
            "weights and two fp32 moments; it leaves out fp32 master weights and optimizers of "
            "other states",
            "2 + 4 + 4 bytes of Adam (arXiv:1412.6980)",
        )
    limit = workload.save_total_limit
    if limit is not None:
        yield _make(
            f"save_total_limit {limit}: {limit} checkpoints on disk",
            checkpoint.total * limit,
            checkpoint.total * (limit + 1),
            "against our disk: the Trainer deletes the oldest once the next is written, so that "
            "one more has to have room; a best model that is older is kept besides",
            "transformers 5.23, trainer.py, _save_checkpoint before rotate_checkpoints",
        )


def iter_time_rules(
    evaluator: Evaluator, workload: TrainWorkload, layout: Layout, estimate: Estimate
) -> Iterator[RuleOfThumb]:
    """Yield QLoRA's time by the article.

    It stands beside our own steps of both.
    """
    plain = replace(
        workload,
        method=Method.LORA,
        precision=POLICIES.get("bf16_autocast", workload.precision)
        if workload.precision.autocast
        else workload.precision,
        fp32_norms_and_head=False,
    )
    with suppress(EstimatorError):
        step = evaluator.get_throughput(workload, layout, estimate)
        lora = evaluator.get_throughput(plain, layout, estimate)
        if step is None or lora is None:
            return
        yield RuleOfThumb(
            name="QLoRA takes 39 % longer than LoRA",
            seconds=lora.step_time_s * _QLORA_TIME,
            our_seconds=step.step_time_s,
            off_by=compute_deviation(lora.step_time_s * _QLORA_TIME, step.step_time_s),
            why=(
                f"against our step, beside {lora.step_time_s:.3g} s of LoRA: weights are unpacked "
                "for each pass whatever the batch, so that long batches lose less; the article "
                "says 33 % as well, and its hours are 51 % more"
            ),
            source="magazine.sebastianraschka.com/p/practical-tips-for-finetuning-llms",
        )


def _make(name: str, rule: int, our_bytes: int | None, why: str, source: str) -> RuleBytes:
    return RuleBytes(name=name, bytes=rule, our_bytes=our_bytes, why=why, source=source)
