"""Stored requests as bodies that ask the same again."""

from collections.abc import Mapping
from typing import Any

from service.contract.to_answer.requests import render_layout, render_workload
from service.jobs.contract import MeasureRequest, ModelSource, ProtocolError, parse_measure_request


def build_question(stored: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a body for POST /v1/measurements.

    ``None`` where an older version stored what this one does not read. A named model is asked by
    its name, so the question is about what that name means today.
    """
    try:
        request = parse_measure_request(stored)
    except ProtocolError:
        return None
    return {
        "model": _render_model(request.model),
        "workload": render_workload(request.task.workload),
        "layout": render_layout(request.layout),
        "device": request.device.value,
        **({} if request.gpu is None else {"gpu": request.gpu}),
        "priority": request.priority.value,
        **_collect_non_defaults(request),
    }


def _collect_non_defaults(request: MeasureRequest) -> dict[str, Any]:
    members: dict[str, Any] = {}
    if request.full_depth:
        members["full_depth"] = True
    if request.rank:
        members["rank"] = request.rank
    if request.artifacts:
        members["artifacts"] = [name.value for name in request.artifacts]
    return members


def _render_model(source: ModelSource) -> str | dict[str, object]:
    if source.name is not None:
        return source.name
    return (
        {"architecture": source.architecture}
        if source.hf_config is None
        else {"hf_config": source.hf_config}
    )
