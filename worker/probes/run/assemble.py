"""The model that a probe runs: whole on a GPU that is alone, shared out where there are ranks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import nn
from torch.utils._python_dispatch import _disable_current_modes
from transformers import PreTrainedModel

from service.estimator.values.workload import TrainWorkload, Workload
from service.jobs.ranks import shares_work
from worker.probes.attention.names import Kernel
from worker.probes.models.build import add_adapters, build_model, fill
from worker.probes.ranks.group import current_layout
from worker.probes.ranks.materialize import local_weights
from worker.probes.ranks.parallelize import check_layout, parallelize
from worker.probes.run.recorder import mark


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembled:
    """``subject`` is called, ``causal`` is the Hugging Face model inside of it."""

    subject: nn.Module
    causal: PreTrainedModel


def assemble(
    config: Mapping[str, object], workload: Workload, *, layers: Sequence[int], kernel: Kernel, device: str
) -> Assembled:
    """Build the model with its adapters, as the rank of ``fake_ranks`` holds it, and mark when its weights are there."""
    layout = current_layout()
    attention = "eager" if kernel is Kernel.EAGER else "sdpa"
    dtype = workload.precision.param_dtype if isinstance(workload, TrainWorkload) else workload.weight_dtype
    lora = workload.lora if isinstance(workload, TrainWorkload) else None
    check_layout(layout, workload)
    if not shares_work(layout):
        causal = build_model(config, layers=layers, dtype=dtype, attention=attention, device=device)
        mark("load")
        return Assembled(subject=causal if lora is None else add_adapters(causal, lora), causal=causal)
    with _disable_current_modes():  # fake tensors come with the storage
        causal = build_model(config, layers=layers, dtype=dtype, attention=attention, device="meta")
        whole = causal if lora is None else add_adapters(causal, lora)
    subject = parallelize(whole, layout, workload, device=device)
    fill(local_weights(subject))
    mark("load")
    return Assembled(subject=subject, causal=causal)
