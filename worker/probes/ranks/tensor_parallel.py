"""Tensor parallelism as transformers does it: by a model's own plan.

The plan comes with the model's config.
"""

from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from transformers import PreTrainedModel
from transformers.distributed.tensor_parallel import apply_tensor_parallelism

from service.jobs.contract import FailureKind
from service.probing.refusal import Refusal

_OF_EMBEDDINGS = frozenset({"embedding_rowwise", "embedding_colwise"})


def split_layers(hf_model: PreTrainedModel, mesh: DeviceMesh) -> None:
    """Split the model over the ranks of ``mesh``.

    It applies ``base_model_tp_plan`` and splits the head; the embedding is replicated.
    (transformers 5.23 ``distributed/tensor_parallel.py``; its loader would split the embedding as
    well, which no config asks for.) A head that shares the embedding's weight is replicated with
    it. Raises Refusal for a model without a plan.
    """
    plan = {name: style for name, style in hf_model.tp_plan.items() if style not in _OF_EMBEDDINGS}
    if not plan:
        message = (
            f"transformers has no tensor-parallel plan for {type(hf_model).__name__}: ask with "
            "tensor_parallel 1"
        )
        raise Refusal(FailureKind.UNSUPPORTED, message)
    expanded = hf_model._expand_parallel_plan(plan)  # noqa: SLF001 - what from_pretrained does with it
    replicated_names = _find_tied_heads(hf_model)
    apply_tensor_parallelism(
        hf_model,
        mesh,
        {name: style for name, style in expanded.items() if name not in replicated_names},
    )


def _find_tied_heads(hf_model: PreTrainedModel) -> frozenset[str]:
    """Return the names of all heads tied to the embedding.

    Both names of each: of the module and of its weight.
    """
    table = hf_model.get_input_embeddings()
    heads = [
        name
        for name, module in hf_model.named_modules()
        if module is not table and _get_weight(module) is table.weight
    ]
    return frozenset(heads) | {f"{name}.weight" for name in heads}


def _get_weight(module: nn.Module) -> object:
    return getattr(module, "weight", None)
