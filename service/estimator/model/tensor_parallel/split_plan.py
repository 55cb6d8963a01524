"""Tensor-parallel choices of libraries beside the split of blocks."""

from dataclasses import dataclass

FIELD = "layout.tensor_parallel"


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitPlan:
    """Choices of a framework beside the split of the blocks.

    ``vocabulary``: each rank has rows of the embedding and of the head, padded to
    ``vocabulary_multiple`` per rank. ``head``: the head alone is split. ``gathers``: outputs that
    the model's code slices or normalises as one are gathered first, so that every rank computes all
    of attention (olmo2, phi3) or of the activation (glm). ``replicates_kv_heads``: more ranks than
    key and value heads share them. ``expert_ranks``: how many ranks split one expert; None is as
    many as split the layers. ``splits_states``: they share what layers keep of a sequence.
    """

    vocabulary: bool = False
    vocabulary_multiple: int = 1
    head: bool = True
    gathers: bool = False
    replicates_kv_heads: bool = True
    expert_ranks: int | None = None
    splits_states: bool = False


TRANSFORMERS = SplitPlan(gathers=True, replicates_kv_heads=False)
"""transformers 5.23, ``base_model_tp_plan`` and ``lm_head: colwise_gather_output``: the embedding
is not split.
"""
ENGINE = SplitPlan(vocabulary=True)
"""Serving engines (vLLM's ``VocabParallelEmbedding``): embedding and head are split, and KV heads
replicated where needed.
"""
TORCHTITAN = SplitPlan(vocabulary=True, replicates_kv_heads=False)
"""torchtitan's ``apply_tp`` (``parallelisms/parallelize_llama.py``): embedding and head are split
by rows of DTensor chunks.
"""


def list_divisors(count: int) -> str:
    """Return the degrees that divide a count, as refusals name them."""
    return f"possible: {', '.join(str(n) for n in range(1, min(count, 128) + 1) if count % n == 0)}"
