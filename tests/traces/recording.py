"""Recordings of models that are kept."""

import json
from collections.abc import Mapping
from typing import Any

from service.estimator.model.recorded.decoding import decode_recording
from service.estimator.model.recorded.encoding import encode_recording
from service.estimator.model.recorded.recorded_model import RecordedModel
from tests.traces.store import RECORDINGS
from worker.probes.architecture.listening.variants import VARIANTS
from worker.probes.architecture.record import record_model


def record_kept(config: Mapping[str, Any], *names: str) -> RecordedModel:
    """Return the recording of a model in some variants; raises Refusal."""
    variants = {name: VARIANTS[name] for name in names}

    def trace() -> str:
        return json.dumps(encode_recording(record_model(config, variants)))

    return decode_recording(json.loads(RECORDINGS.resolve((config, names), trace)))
