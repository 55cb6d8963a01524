"""Recorded models as one rank of a serving engine holds them."""

from dataclasses import replace
from typing import TYPE_CHECKING

from service.estimator.model.recorded.rank_layers import LayerSplit, split_layer
from service.estimator.model.tensor_parallel.local import split_vocabulary
from service.estimator.model.tensor_parallel.split_plan import SplitPlan

if TYPE_CHECKING:
    from service.estimator.model.recorded.architecture import RecordedArchitecture


def split_recorded(
    model: "RecordedArchitecture", ranks: int, plan: SplitPlan, *, by_plan: bool
) -> "RecordedArchitecture":
    """Return a recorded model as one of ``ranks`` holds it.

    ``by_plan`` is transformers' plan in place of the engine's own rule.
    """
    expert_ranks = plan.expert_ranks or ranks
    if ranks == expert_ranks == 1:
        return model
    spec = model.spec
    split = LayerSplit(
        hidden_size=spec.hidden_size,
        num_heads=spec.num_attention_heads,
        ranks=ranks,
        expert_ranks=expert_ranks,
        by_plan=by_plan,
    )
    embedding, head = model.embedding, model.head
    if ranks > 1:
        embedding, head = split_vocabulary(model, ranks, plan)
    blocks = tuple(
        (replace(block, layer=split_layer(block.layer, split)), count)
        for block, (_, count) in zip(model.list_recorded_blocks(), model.blocks, strict=True)
    )
    return replace(
        model,
        spec=replace(
            spec,
            num_attention_heads=spec.num_attention_heads // ranks,
            num_key_value_heads=max(1, spec.num_key_value_heads // ranks),
        ),
        embedding=embedding,
        head=head,
        blocks=blocks,
    )
