"""Layouts of requests as layouts of the estimator."""

from collections.abc import Mapping
from typing import Any

from msgspec import UnsetType

from service.contract.schemas.layouts import LayoutRequest
from service.contract.to_question.defaults import apply_defaults, copy_set_fields
from service.estimator.model.pipelines.megatron import read_layout_string
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import FULLY_SHARDED, MAX_ZERO_STAGE, Layout, Sharding
from service.estimator.values.memo import keep_latest
from service.estimator.values.pipeline import ONE_CHUNK, PipelineSplit
from service.formats.quantities import parse_bytes

_SPLIT_WORDS = tuple(PipelineSplit.__dataclass_fields__)
LAYOUT_DEFAULTS: dict[str, Any] = {
    "data_parallel": 1,
    "tensor_parallel": 1,
    "pipeline_parallel": 1,
    "context_parallel": 1,
    "expert_parallel": 1,
    "zero_stage": 0,
    "gpus_per_node": 8,
}
_LAYOUT_OPTIONAL = (
    "sequence_parallel",
    "reshard_after_forward",
    "expert_tensor_parallel",
    "virtual_pipeline_stages",
    "context_parallel_method",
    "pipeline_schedule",
    "shard_embeddings_separately",
    "shard_size",
    "network_bytes_per_second",
)


@keep_latest(1024)
def read_layout(
    request: LayoutRequest | UnsetType, *, serves: bool = False
) -> tuple[Layout, tuple[str, ...]]:
    """Return the layout and the defaults it uses.

    Each default is a line. Few layouts are asked about, and each often, so they are cached. A named
    stage means DeepSpeed unless another sharding is named; FSDP shards everything, which is stage
    3. Serving spreads experts over all tensor x data ranks: as many of them split one expert as are
    left.
    """
    request = LayoutRequest() if isinstance(request, UnsetType) else request
    is_fully_sharded = request.sharding in FULLY_SHARDED
    values, assumptions = apply_defaults(
        request,
        LAYOUT_DEFAULTS | ({"zero_stage": MAX_ZERO_STAGE} if is_fully_sharded else {}),
        "layout",
    )
    if isinstance(request.sharding, UnsetType):
        values["sharding"] = (
            Sharding.DDP if isinstance(request.zero_stage, UnsetType) else Sharding.DEEPSPEED
        )
        assumptions.append(f"layout.sharding = {values['sharding']}")
    else:
        values["sharding"] = request.sharding
    for name in ("host_memory_bytes", "nvme_bytes"):
        if not isinstance(text := getattr(request, name), UnsetType):
            values[name] = parse_bytes(text, field=f"layout.{name}")
    values |= copy_set_fields(request, _LAYOUT_OPTIONAL)
    values |= _read_pipeline(request, values)
    if serves and values["expert_parallel"] > 1 and "expert_tensor_parallel" not in values:
        values["expert_tensor_parallel"] = _count_expert_ranks(values)
    if values.get("expert_tensor_parallel") == values["tensor_parallel"]:
        del values["expert_tensor_parallel"]
    return Layout(**values), tuple(assumptions)


def _read_pipeline(request: LayoutRequest, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the split of the pipeline, and the chunks it implies."""
    split_fields = copy_set_fields(request, _SPLIT_WORDS)
    implied = {} if "virtual_pipeline_stages" in values else _count_chunks(split_fields, values)
    return implied | ({"pipeline_split": PipelineSplit(**split_fields)} if split_fields else {})


def _count_chunks(split_fields: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, int]:
    """Return the chunks a stage has by its split or schedule.

    A schedule of several has two.
    """
    stages, chunks = values["pipeline_parallel"], 1
    if "pipeline_model_parallel_layout" in split_fields:
        chunks = len(read_layout_string(split_fields["pipeline_model_parallel_layout"]))
    elif "pipeline_layers" in split_fields:
        chunks = len(split_fields["pipeline_layers"])
    elif values.get("pipeline_schedule") not in {None, *ONE_CHUNK}:
        chunks = 2 * stages
    per_stage, remainder = divmod(chunks, stages)
    return {"virtual_pipeline_stages": per_stage} if per_stage > 1 and not remainder else {}


def _count_expert_ranks(values: Mapping[str, int]) -> int:
    """Return the number of ranks that split one served expert.

    Refuses experts that do not stand on all ranks of a server.
    """
    tensor, data, spread = (
        values["tensor_parallel"],
        values["data_parallel"],
        values["expert_parallel"],
    )
    ranks_per_expert, remainder = divmod(tensor * data, spread)
    if remainder:
        ranks = f"tensor_parallel {tensor} x data_parallel {data} = {tensor * data}"
        message = (
            f"expert_parallel {spread} does not divide the ranks that experts are spread over: "
            f"{ranks}"
        )
        raise InvalidInputError(message, field="layout.expert_parallel")
    return ranks_per_expert
