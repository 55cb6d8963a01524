"""Recorded pipelines read from their documents."""

from collections.abc import Mapping, Sequence
from typing import Any

from service.estimator.pipelines.extents import NAMES
from service.estimator.pipelines.logs import Log, Peaks, Polynomial
from service.estimator.pipelines.recording import (
    Prompts,
    RecordedComponent,
    RecordedPipeline,
    Role,
    Weight,
)
from service.estimator.values.errors import InvalidInputError

FORMAT = 1
MAX_EVENTS = 400_000
"""Events of a pass; the longest that is known has 31,000."""
_MAX_NUMBER = 2**53
_FIELD = "pipeline.recording"
_INPUTS = ("guided", "plain", "latents")


def read_pipeline(document: Mapping[str, Any], name: str = "") -> RecordedPipeline:
    """Return the pipeline of a document; raises InvalidInputError for anything else."""
    if document.get("format") != FORMAT:
        message = f"a recording of a pipeline has format {FORMAT}, not {document.get('format')!r}"
        raise InvalidInputError(message, field=_FIELD)
    try:
        return _read(document, name)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        message = f"this is no whole recording of a pipeline: {type(error).__name__} {error}"
        raise InvalidInputError(message, field=_FIELD) from error


def _read(document: Mapping[str, Any], name: str) -> RecordedPipeline:
    prompts = {
        encoder: Prompts(
            max_tokens=_read_integer(entry["max_tokens"]),
            template_tokens=_read_integer(entry["template_tokens"]),
        )
        for encoder, entry in document["encoders"].items()
    }
    components = {
        key: _read_component(str(key), entry, is_encoder=key in prompts)
        for key, entry in document["components"].items()
    }
    if not {Role.DENOISER, Role.DECODER} <= {part.role for part in components.values()}:
        message = f"components {', '.join(components)} have no denoiser or no vae"
        raise ValueError(message)
    inputs = document["inputs"]
    return RecordedPipeline(
        name=name or str(document.get("name", "recording")),
        class_name=str(document["class"]),
        releases={part: str(document[part]) for part in ("diffusers", "transformers", "torch")},
        sources={str(key): str(text) for key, text in document.get("sources", {}).items()},
        pixel_step=_read_positive(document["pixel_step"]),
        frame_step=_read_integer(document["frame_step"]),
        max_tokens=_read_positive(document["max_tokens"]),
        fixed_tokens=_read_integer(document["fixed_tokens"]),
        prompts=prompts,
        components=components,
        passes={key: read_pass(entry) for key, entry in document["passes"].items()},
        inputs={key: _read_polynomial(inputs[key]) for key in _INPUTS},
        tile_outputs={
            str(key): _read_polynomial(rows)
            for key, rows in document.get("tile_outputs", {}).items()
        },
        token_multiple=_read_positive(document.get("token_multiple", 1)),
    )


def _read_component(name: str, entry: Mapping[str, Any], *, is_encoder: bool) -> RecordedComponent:
    return RecordedComponent(
        name=name,
        class_name=str(entry["class"]),
        library=str(entry["library"]),
        role=Role.ENCODER if is_encoder else Role.DECODER if name == "vae" else Role.DENOISER,
        num_parameters=_read_integer(entry["parameters"]),
        blocks=tuple(map(str, entry["blocks"])),
        modules={str(path): tuple(map(_read_weight, rows)) for path, rows in entry["modules"]},
        config=dict(entry["config"]),
    )


def _read_weight(row: Sequence[Any]) -> Weight:
    numel, *sizes = map(_read_integer, row)
    first, second, third = sizes
    return Weight(numel=numel, itemsizes=(first, second, third))


def read_pass(entry: Mapping[str, Any]) -> Log | Peaks:
    """Return a pass; raises ValueError for events that cannot be."""
    if "events" not in entry:
        return Peaks(
            peaks=tuple(map(_read_polynomial, entry["peak"])),
            bounds=tuple(map(_read_polynomial, entry["bound"])),
            min_frames=_read_integer(entry["min_frames"]),
        )
    events = tuple(map(_read_integer, entry["events"]))
    if len(events) > MAX_EVENTS:
        message = f"{len(events)} events are more than {MAX_EVENTS}"
        raise ValueError(message)
    log = Log(
        kinds=tuple(map(_read_polynomial, entry["kinds"])),
        workspaces=frozenset(map(_read_integer, entry["workspaces"])),
        events=events,
        modules=tuple(map(str, entry["modules"])),
    )
    log.check()
    return log


def _read_polynomial(terms: Sequence[Any]) -> Polynomial:
    polynomial = []
    for powers, coefficient in terms:
        numbers = tuple(map(_read_integer, powers))
        if len(numbers) != len(NAMES) or max(numbers) > 2:  # noqa: PLR2004 - squares are the highest
            message = f"powers {numbers} of {', '.join(NAMES)}"
            raise ValueError(message)
        if type(coefficient) is not int or abs(coefficient) > _MAX_NUMBER:
            message = f"a coefficient of {coefficient!r}"
            raise ValueError(message)
        polynomial.append((numbers, coefficient))
    return tuple(polynomial)


def _read_integer(value: object) -> int:
    if type(value) is not int or not 0 <= value <= _MAX_NUMBER:
        message = f"{value!r} is no whole number from 0 to 2^53"
        raise ValueError(message)
    return value


def _read_positive(value: object) -> int:
    number = _read_integer(value)
    if not number:
        message = "0 where a number from 1 is needed"
        raise ValueError(message)
    return number
