"""A stored request as the body that asks for the same measurement again."""

from collections.abc import Mapping
from typing import Any

from service.contract.to_answer.requests import layout_words, workload_words
from service.jobs.contract import MeasureRequest, ModelSource, ProtocolError, parse_measure_request


def question_of(stored: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a body for POST /v1/measurements; ``None`` where an older version stored what this one does not read.

    A named model is asked by its name, so the question is about what that name means today.
    """
    try:
        asked = parse_measure_request(stored)
    except ProtocolError:
        return None
    return {
        "model": _model(asked.model),
        "workload": workload_words(asked.task.workload),
        "layout": layout_words(asked.layout),
        "device": asked.device.value,
        **({} if asked.gpu is None else {"gpu": asked.gpu}),
        "priority": asked.priority.value,
        **_unusual(asked),
    }


def _unusual(asked: MeasureRequest) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if asked.full_depth:
        found["full_depth"] = True
    if asked.rank:
        found["rank"] = asked.rank
    if asked.artifacts:
        found["artifacts"] = [name.value for name in asked.artifacts]
    return found


def _model(source: ModelSource) -> str | dict[str, object]:
    if source.name is not None:
        return source.name
    return {"architecture": source.architecture} if source.hf_config is None else {"hf_config": source.hf_config}
