"""One rank of a tiny model, run on a device."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.precision import POLICIES, Precision
from service.estimator.values.workload import Attention, TrainWorkload
from service.jobs.contract import ModelSource, ProbeDevice, ProbeRequest, ProbeResult, make_task
from tests.traces.measuring import measure_kept
from worker.probes.measure import measure

LLAMA: Mapping[str, object] = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 192,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "num_hidden_layers": 2,
    "vocab_size": 512,
    "tie_word_embeddings": False,
    "max_position_embeddings": 256,
}
CAST_AT_GATHER = Precision(
    name="custom",
    param_dtype=DType.FP32,
    compute_dtype=DType.BF16,
    grad_dtype=DType.FP32,
    optimizer_dtype=DType.FP32,
)
TRAIN = TrainWorkload(
    sequence_length=64,
    micro_batch_size=2,
    precision=POLICIES["bf16"],
    attention=Attention.FLASH,
    keeps_logits=True,
    fp32_outputs=False,
)


def fsdp2(data_parallel: int, **words: int | bool) -> Layout:
    """Return a fully sharded layout."""
    return Layout(data_parallel=data_parallel, sharding=Sharding.FSDP2, zero_stage=3, **words)  # type: ignore[arg-type]  # fields by name


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is run: a layout's rank, a workload, a model."""

    layout: Layout
    workload: TrainWorkload = TRAIN
    rank: int = 0
    config: Mapping[str, object] = field(default_factory=lambda: LLAMA)


def run(asked: Asked, device: ProbeDevice) -> ProbeResult:
    """Measure one rank at full depth."""
    request = ProbeRequest(
        model=ModelSource(architecture={}, hf_config=dict(asked.config)),
        task=make_task(asked.workload),
        layout=asked.layout,
        device=device,
        full_depth=True,
        rank=asked.rank,
        deadline_s=600.0,
    )
    if device is ProbeDevice.TRACE:
        return measure_kept(request)
    return measure(request, lambda _line: None)
