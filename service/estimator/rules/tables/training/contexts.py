"""Rules of ranks that share every sequence."""

from service.estimator.rules.grammar.conditions import (
    all_of,
    any_of,
    divides,
    divides_or_is_multiple_of,
    is_above,
    is_false,
    is_in,
    is_multiple_of,
    satisfies,
)
from service.estimator.rules.grammar.fields import layout, model, offload, workload
from service.estimator.rules.grammar.rule import Rule, Topic, invalid, unmodelled
from service.estimator.rules.predicates.models import is_text_decoder
from service.estimator.values.batches import SequencePacking
from service.estimator.values.layout import ContextMethod, Sharding
from service.estimator.values.losses import Kernels, Loss, Trainer
from service.estimator.values.workload import Attention, OffloadTarget

_SHARED = is_above(layout.context_parallel, 1)
_ULYSSES = all_of(_SHARED, is_in(layout.context_parallel_method, ContextMethod.ULYSSES))
_RING = all_of(_SHARED, is_in(layout.context_parallel_method, ContextMethod.RING))
_ACCELERATE = "accelerate 1.15, parallelism_config.py and accelerator.py"
_HEADS = "deepspeed, runtime/sequence_parallel/ulysses_sp.py"
FAMILIES = ("granite", "llama", "nemotron", "olmo", "olmo2", "qwen2", "qwen3")

RING_ALONE = Rule(
    require=is_in(layout.context_parallel_method, ContextMethod.RING),
    topic=Topic.STAGES,
    refusal=unmodelled(
        "context_parallel_method ulysses in framework {workload.framework}",
        "ring",
        "ulysses in framework transformers with sharding deepspeed",
    ),
    reason="heads that ranks exchange have a term in framework transformers alone",
)
"""Frameworks whose ranks pass keys and values on."""


def _require(condition: object, what: str, *modelled: str) -> Rule:
    """Return the rule of what has no term beside shared sequences."""
    return Rule(
        when=_SHARED,
        require=condition,  # type: ignore[arg-type]  # a condition
        topic=Topic.SLICES,
        refusal=unmodelled(f"{what} beside context_parallel", *modelled),
        reason=f"{what} beside context_parallel",
    )


SHARED_SEQUENCES = (
    Rule(
        when=_RING,
        require=is_in(layout.sharding, Sharding.FSDP2),
        topic=Topic.SLICES,
        refusal=invalid(
            "context_parallel {layout.context_parallel} by ring runs on sharding fsdp2, not "
            "{layout.sharding}: say that, or context_parallel_method ulysses with deepspeed"
        ),
        reason="context_parallel by ring runs on sharding fsdp2",
        source=f"{_ACCELERATE}: context parallelism is supported with FSDP2",
    ),
    Rule(
        when=_ULYSSES,
        require=is_in(layout.sharding, Sharding.DEEPSPEED),
        topic=Topic.SLICES,
        refusal=invalid(
            "context_parallel_method ulysses runs on sharding deepspeed, not {layout.sharding}"
        ),
        reason="ulysses runs on sharding deepspeed",
        source=f"{_ACCELERATE}: sp_backend is deepspeed",
    ),
    Rule(
        when=_SHARED,
        require=is_in(layout.tensor_parallel, 1),
        topic=Topic.SLICES,
        refusal=unmodelled("context_parallel beside tensor_parallel", "tensor_parallel 1"),
        reason="context_parallel beside tensor_parallel",
    ),
    Rule(
        when=_RING,
        require=is_in(workload.attention, Attention.SDPA),
        topic=Topic.SLICES,
        refusal=invalid(
            "context_parallel by ring takes SDPA's place, and attention is {workload.attention}"
        ),
        reason="context_parallel by ring takes SDPA's place",
        source=f"{_ACCELERATE}: _attach_context_parallel_hooks",
    ),
    _require(
        is_in(workload.attention, Attention.SDPA, Attention.FLASH),
        "attention {workload.attention}",
        "sdpa",
        "flash",
    ),
    Rule(
        when=_RING,
        require=is_multiple_of(workload.sequence_length, (2, layout.context_parallel)),
        topic=Topic.SLICES,
        refusal=invalid(
            "sequence_length {workload.sequence_length} does not divide by 2 x context_parallel "
            "{layout.context_parallel}: each rank takes two slices, so that causal work is even"
        ),
        reason="sequence_length is no multiple of 2 x context_parallel",
        source="torch 2.13, _context_parallel/_load_balancer.py, _HeadTailLoadBalancer",
    ),
    Rule(
        when=_ULYSSES,
        require=is_multiple_of(workload.sequence_length, layout.context_parallel),
        topic=Topic.SLICES,
        refusal=invalid(
            "sequence_length {workload.sequence_length} does not divide over "
            "{layout.context_parallel} ranks"
        ),
        reason="sequence_length does not divide over context_parallel ranks",
        source=_HEADS,
    ),
    Rule(
        when=_ULYSSES,
        require=divides(layout.context_parallel, model.num_attention_heads),
        topic=Topic.SLICES,
        refusal=invalid(
            "context_parallel {layout.context_parallel} of ulysses does not divide "
            "{model.num_attention_heads} attention heads"
        ),
        reason="context_parallel of ulysses does not divide the attention heads",
        source=_HEADS,
    ),
    Rule(
        when=_ULYSSES,
        require=divides_or_is_multiple_of(layout.context_parallel, model.num_key_value_heads),
        topic=Topic.SLICES,
        refusal=invalid(
            "context_parallel {layout.context_parallel} of ulysses neither divides "
            "{model.num_key_value_heads} key and value heads nor is a multiple of them"
        ),
        reason="context_parallel of ulysses and the key and value heads do not divide",
        source=_HEADS,
    ),
    _require(is_in(model.family, *FAMILIES), "{model.family}", *FAMILIES),
    _require(
        all_of(is_false(workload.padding_mask), satisfies(is_text_decoder)),
        "a padding mask",
        "padding_mask false",
    ),
    _require(
        all_of(
            is_in(workload.trainer, Trainer.SUPERVISED),
            is_in(workload.packing, SequencePacking.NONE),
            is_in(workload.sequence_lengths, ()),
        ),
        "packing, lengths and preference losses",
        "trainer supervised of whole sequences",
    ),
    _require(
        any_of(is_in(workload.loss, Loss.FULL_LOGITS), is_in(workload.loss, Loss.CHUNKED)),
        "loss {workload.loss}",
        "full_logits",
    ),
    _require(is_in(workload.kernels, Kernels.TORCH), "kernels {workload.kernels}", "torch"),
    _require(is_in(offload.activations, OffloadTarget.NONE), "offload.activations", "none"),
)
"""Context parallelism of the Trainer: PyTorch's ring through accelerate, or DeepSpeed's Ulysses."""
