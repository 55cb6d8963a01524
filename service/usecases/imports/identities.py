"""Identities of imported measurements, by which nothing is stored twice."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict

from service.formats.measured.observe import Observation
from service.formats.measured.reading import Reading
from service.jobs.contract import MeasureRequest, make_document

Document = dict[str, object]


def hash_import(
    observation: Observation, request: MeasureRequest, environment: Mapping[str, str]
) -> str:
    """Return a hash of the readings of a job and its question.

    Equal imports have equal hashes.
    """
    # The same job in a longer file stands on another line.
    readings = [
        {**make_reading_document(reading), "line": None} for reading in observation.readings
    ]
    content = {
        "job": observation.job,
        "readings": readings,
        "request": make_document(request),
        "environment": dict(environment),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def make_reading_document(reading: Reading) -> Document:
    """Return a reading as JSON values, without unknown ones in its place."""
    place = {name: value for name, value in asdict(reading.place).items() if value is not None}
    return {
        "quantity": reading.quantity.value,
        "value": reading.value,
        "low": reading.low,
        "high": reading.high,
        "sampled": reading.sampled,
        "num_samples": reading.num_samples,
        "place": place,
        "line": reading.line,
        "since": reading.since,
        "until": reading.until,
    }
