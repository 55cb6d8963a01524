"""Adapter slots that vLLM allocates at its start (``--enable-lora``).

vLLM 0.33.0, ``vllm/lora/layers``: each linear layer of a rank has, for each of ``max_loras`` slots,
``lora_a_stacked`` of rank x inputs and ``lora_b_stacked`` of outputs x rank, in the model's own
dtype, of the inputs and outputs that the layer has on the rank; layers that vLLM merges (q, k and
v; gate and up) keep one of each for each part. Table and head, where adapters may change them, are
whole on every rank (``vocab_parallel_embedding.py``, ``logits_processor.py``).
"""

from service.estimator.backends.paged_pool.memory_parts import (
    MemoryPart,
    make_exact_part,
)
from service.estimator.backends.paged_pool.rank_memory import Rank
from service.estimator.rules.tables.serving.adapter_slots import WITH_HEADS, WITH_TABLES
from service.estimator.values.workload import ServeWorkload

DEFAULT_RANK = 16
"""``max_lora_rank`` of ``LoRAConfig``."""


def count_adapter_slots(rank: Rank, workload: ServeWorkload) -> MemoryPart:
    """Return the memory of a rank's adapter slots."""
    slots, rows = workload.max_loras or 0, workload.max_lora_rank or DEFAULT_RANK
    width = workload.weight_dtype.bytes_per_element
    layers, outside = _count_layer_features(rank), _count_table_features(rank)
    return make_exact_part(
        "adapters",
        slots * rows * (layers + outside) * width,
        f"{slots} slots x rank {rows} x ({layers:,} of {rank.num_layers} layers + {outside:,} of "
        f"table and head) x {width} B",
        "vLLM 0.33.0, vllm/lora/layers, create_lora_weights",
        persistent=True,
    )


def _count_layer_features(rank: Rank) -> int:
    """Return inputs and outputs of all linear layers of a stage."""
    total = sum(
        count * sum(layer.in_features + layer.out_features for layer in block.linears())
        for block, count in rank.model.blocks
    )
    return total * rank.num_layers // rank.model.num_hidden_layers


def _count_table_features(rank: Rank) -> int:
    """Return inputs and outputs of a stage's table and head."""
    spec = rank.model.spec
    stands_here = rank.is_first or (rank.is_last and rank.model.tied)
    has_table = stands_here and spec.family in WITH_TABLES
    has_head = rank.is_last and spec.family in WITH_HEADS
    return (spec.vocab_size + spec.hidden_size) * (has_table + has_head)
