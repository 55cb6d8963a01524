"""Workloads and layouts as complete requests: sent back to /v1/fit they give the same bytes."""

from dataclasses import fields

from service.contract.schemas.fields import JsonObject
from service.contract.schemas.fit import CUSTOM_GPU
from service.contract.schemas.how_many import MemoryAnswer
from service.estimator.values.device import Device
from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES, Precision
from service.estimator.values.workload import Offload, Quantization, ServeWorkload, Workload
from service.planner.fit.changes import in_words


def workload_words(workload: Workload) -> JsonObject:
    """Return every word about a workload."""
    if isinstance(workload, ServeWorkload):
        return {"task": "serve"} | _serving_words(workload)
    words: JsonObject = {"task": "train"} | _words(workload)
    if every := words.pop("selective_every", None):
        words["activation_checkpointing"] = {"selective": every}
    if workload.peft is not None:
        words["peft"] = {"type": workload.peft}
    return words


def _serving_words(workload: ServeWorkload) -> JsonObject:
    words = _words(workload)
    if not words.pop("unquantised") and workload.quantization is Quantization.NONE:
        del words["quantization"]  # said, it would contradict a config that quantises its weights
    return words


def layout_words(layout: Layout) -> JsonObject:
    """Return every word about a layout."""
    return _words(layout)


def gpu_words(device: Device) -> str | MemoryAnswer:
    """Return what a request says to mean this GPU: its name, or the memory of one that is in no catalogue."""
    return MemoryAnswer(memory_bytes=device.usable_bytes) if device.name == CUSTOM_GPU else device.name


def _words(value: Workload | Layout | Offload | Precision) -> JsonObject:
    said = ((field.name, getattr(value, field.name)) for field in fields(value))
    return {name: _word(part) for name, part in said if part is not None}


def _word(value: object) -> object:
    match value:
        case Precision() if value != POLICIES.get(value.name):
            return {name: word for name, word in _words(value).items() if name != "name"}
        case Offload():
            return _words(value)
        case tuple():
            return list(value)
        case _:
            return in_words(value)
