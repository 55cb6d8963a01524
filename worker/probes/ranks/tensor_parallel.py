"""Tensor parallelism as transformers does it: by the plan that comes with a model's config."""

from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from transformers import PreTrainedModel
from transformers.distributed.tensor_parallel import apply_tensor_parallelism

from service.jobs.contract import FailureKind
from service.probing.refusal import Refusal

_OF_EMBEDDINGS = frozenset({"embedding_rowwise", "embedding_colwise"})


def split_layers(causal: PreTrainedModel, mesh: DeviceMesh) -> None:
    """Split the model over the ranks of ``mesh``: ``base_model_tp_plan`` and the head; the embedding stays whole.

    (transformers 5.23 ``distributed/tensor_parallel.py``; its loader would split the embedding as well, which no config asks
    for.) A head that shares the embedding's weight stays whole with it. Raises Refusal for a model without a plan.
    """
    plan = {name: style for name, style in causal.tp_plan.items() if style not in _OF_EMBEDDINGS}
    if not plan:
        message = f"transformers has no tensor-parallel plan for {type(causal).__name__}: ask with tensor_parallel 1"
        raise Refusal(FailureKind.UNSUPPORTED, message)
    expanded = causal._expand_parallel_plan(plan)  # noqa: SLF001 - what from_pretrained does with it
    whole = _tied_heads(causal)
    apply_tensor_parallelism(causal, mesh, {name: style for name, style in expanded.items() if name not in whole})


def _tied_heads(causal: PreTrainedModel) -> frozenset[str]:
    """Return the names, of module and weight, of each head that is the embedding's table."""
    table = causal.get_input_embeddings()
    heads = [name for name, module in causal.named_modules() if module is not table and _weight(module) is table.weight]
    return frozenset(heads) | {f"{name}.weight" for name in heads}


def _weight(module: nn.Module) -> object:
    return getattr(module, "weight", None)
