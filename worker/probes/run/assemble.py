"""The model that a probe runs.

It is the full model on a GPU that is alone, and one rank's part of it where there are ranks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import nn
from torch.utils._python_dispatch import _disable_current_modes
from transformers import PreTrainedModel

from service.estimator.rules.obstacles import is_distributed
from service.estimator.values.workload import TrainWorkload, Workload
from worker.probes.attention.names import Kernel
from worker.probes.models.build import add_adapters, build_model, fill_weights, get_head
from worker.probes.ranks.group import get_current_layout
from worker.probes.ranks.materialize import iter_local_weights
from worker.probes.ranks.parallelize import check_layout, parallelize
from worker.probes.run.recorder import mark


@dataclass(frozen=True, slots=True, kw_only=True)
class AssembledModel:
    """The model that is called, and the Hugging Face model inside it.

    ``model`` is called, ``hf_model`` is the Hugging Face model.
    """

    model: nn.Module
    hf_model: PreTrainedModel


def assemble(
    config: Mapping[str, object],
    workload: Workload,
    *,
    layers: Sequence[int],
    kernel: Kernel,
    device: str,
) -> AssembledModel:
    """Build the model with its adapters and mark ``load``.

    It is the model as the rank of ``fake_ranks`` holds it; the mark is set when its weights are
    there.
    """
    layout = get_current_layout()
    attention = "eager" if kernel is Kernel.EAGER else "sdpa"
    dtype = (
        workload.precision.param_dtype
        if isinstance(workload, TrainWorkload)
        else workload.weight_dtype
    )
    lora = workload.lora if isinstance(workload, TrainWorkload) else None
    check_layout(layout, workload)
    if not is_distributed(layout):
        hf_model = build_model(
            config, layers=layers, dtype=dtype, attention=attention, device=device
        )
        mark("load")
        return AssembledModel(
            model=hf_model if lora is None else add_adapters(hf_model, lora, get_head(config)),
            hf_model=hf_model,
        )
    with _disable_current_modes():  # fake tensors come with the storage
        hf_model = build_model(
            config, layers=layers, dtype=dtype, attention=attention, device="meta"
        )
        full_model = hf_model if lora is None else add_adapters(hf_model, lora, get_head(config))
    model = parallelize(full_model, layout, workload, device=device)
    fill_weights(iter_local_weights(model))
    mark("load")
    return AssembledModel(model=model, hf_model=hf_model)
