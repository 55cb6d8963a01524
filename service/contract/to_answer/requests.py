"""Workloads and layouts rendered as complete requests.

Sent back to /v1/fit they give the same bytes.
"""

from dataclasses import fields

from service.contract.schemas.fields import JsonObject
from service.contract.schemas.how_many import MemoryAnswer
from service.estimator.values.device import UNKNOWN_VENDOR, Device
from service.estimator.values.layout import Layout
from service.estimator.values.megatron import MegatronOptions
from service.estimator.values.precision import POLICIES, Precision
from service.estimator.values.workload import Offload, Quantization, ServeWorkload, Workload
from service.planner.fit.changes import to_json_value


def render_workload(workload: Workload) -> JsonObject:
    """Return a workload with every field of the contract."""
    if isinstance(workload, ServeWorkload):
        return {"task": "serve"} | _render_serving(workload)
    members: JsonObject = {"task": "train"} | _render_fields(workload)
    if every := members.pop("selective_every", None):
        members["activation_checkpointing"] = {"selective": every}
    if lengths := members.pop("sequence_lengths"):
        members["sequence_lengths"] = {str(length): count for length, count in lengths}
    if workload.megatron == MegatronOptions():
        del members["megatron"]
    if workload.peft is not None:
        members["peft"] = {"type": workload.peft}
    return members


def _render_serving(workload: ServeWorkload) -> JsonObject:
    members = _render_fields(workload)
    if not members.pop("unquantised") and workload.quantization is Quantization.NONE:
        del members["quantization"]  # said, it would contradict a config that quantises its weights
    return members


def render_layout(layout: Layout) -> JsonObject:
    """Return a layout with every field of the contract."""
    members = _render_fields(layout)
    del members["pipeline_split"]
    split = {name: getattr(layout.pipeline_split, name) for name in layout.pipeline_split.names}
    return members | {name: _render_value(value) for name, value in split.items()}


def render_gpu(device: Device) -> str | MemoryAnswer:
    """Return a GPU as a request names it.

    Its name, or the memory of one that is in no catalogue.
    """
    return (
        MemoryAnswer(memory_bytes=device.usable_bytes)
        if device.vendor == UNKNOWN_VENDOR
        else device.name
    )


def _render_fields(value: Workload | Layout | Offload | Precision) -> JsonObject:
    values = ((field.name, getattr(value, field.name)) for field in fields(value))
    return {name: _render_value(part) for name, part in values if part is not None}


def _render_value(value: object) -> object:
    match value:
        case Precision() if value != POLICIES.get(value.name):
            return {name: word for name, word in _render_fields(value).items() if name != "name"}
        case Offload():
            return _render_fields(value)
        case tuple():
            return list(value)
        case _:
            return to_json_value(value)
