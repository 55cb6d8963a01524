"""Which layouts have a term."""

from service.estimator.architecture import Architecture
from service.estimator.errors import InvalidInputError, NotModelledError
from service.estimator.layout import Layout


def check_layout(model: Architecture, layout: Layout) -> None:
    """Raise for degrees that the model does not divide by, and for those that have no term."""
    heads = model.spec.num_attention_heads
    if heads % layout.tensor_parallel:
        divisors = ", ".join(str(n) for n in range(1, heads + 1) if heads % n == 0)
        message = f"tensor_parallel {layout.tensor_parallel} does not divide {heads} attention heads; possible: {divisors}"
        raise InvalidInputError(message, field="layout.tensor_parallel")
    for name in ("tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel"):
        if getattr(layout, name) > 1:
            raise NotModelledError(f"{name} {getattr(layout, name)}", field=f"layout.{name}", modelled=["1"])
    if layout.virtual_pipeline_stages > 1:
        raise NotModelledError("virtual_pipeline_stages", field="layout.virtual_pipeline_stages", modelled=["1"])
    if layout.expert_tensor_parallel not in {None, layout.tensor_parallel}:
        what = f"expert_tensor_parallel {layout.expert_tensor_parallel}"
        raise NotModelledError(what, field="layout.expert_tensor_parallel", modelled=[str(layout.tensor_parallel)])
    if layout.shard_embeddings_separately:
        field = "layout.shard_embeddings_separately"
        raise NotModelledError("shard_embeddings_separately true", field=field, modelled=["shard_embeddings_separately false"])
    if layout.shard_size not in {None, layout.data_parallel * layout.context_parallel}:
        what = f"shard_size {layout.shard_size}"
        raise NotModelledError(what, field="layout.shard_size", modelled=["all data-parallel ranks"])
