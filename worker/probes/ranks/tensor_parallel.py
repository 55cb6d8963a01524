"""Tensor parallelism as transformers does it: by the plan that comes with a model's config."""

from torch.distributed.device_mesh import DeviceMesh
from transformers import PreTrainedModel
from transformers.distributed.tensor_parallel import apply_tensor_parallelism

from service.jobs.contract import FailureKind
from service.probing.refusal import Refusal

_OF_EMBEDDINGS = frozenset({"embedding_rowwise", "embedding_colwise"})


def split_layers(causal: PreTrainedModel, mesh: DeviceMesh) -> None:
    """Split the model over the ranks of ``mesh``: ``base_model_tp_plan`` and the head; the embedding stays whole.

    (transformers 5.23 ``distributed/tensor_parallel.py``; its loader would split the embedding as well, which no config asks
    for.) Raises Refusal for a model without a plan.
    """
    plan = {name: style for name, style in causal.tp_plan.items() if style not in _OF_EMBEDDINGS}
    if not plan:
        message = f"transformers has no tensor-parallel plan for {type(causal).__name__}: ask with tensor_parallel 1"
        raise Refusal(FailureKind.UNSUPPORTED, message)
    if causal.config.get_text_config().tie_word_embeddings:
        message = "the head shares the embedding's weight, so it cannot be split alone: ask with tensor_parallel 1"
        raise Refusal(FailureKind.UNSUPPORTED, message)
    expanded = causal._expand_parallel_plan(plan)  # noqa: SLF001 - what from_pretrained does with it
    apply_tensor_parallelism(causal, mesh, expanded)
