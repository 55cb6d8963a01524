"""Models that wait for their recording, in words and numbers."""

from collections.abc import Mapping

from service.base.errors import ServiceError
from service.base.recording_errors import ModelNotRecordedError, ModelRecordingError
from service.db.records.recordings import ConfigRecording
from service.estimator.model.recorded.architecture import RecordedArchitecture
from service.estimator.values.dtypes import DType
from service.usecases.recordings.documents import load_weights

RETRY_AFTER_S = 5
"""When it is worth another try: a recording takes some ten of it."""
DTYPES = (DType.FP32, DType.BF16)


class WaitingModelError(ModelRecordingError):
    """A question about a model whose recording is under way.

    ``architecture`` has its weights alone, None before they are counted.
    """

    def __init__(
        self, detail: str, architecture: RecordedArchitecture | None, **extra: object
    ) -> None:
        """Store what is known by now."""
        super().__init__(detail, **extra)
        self.architecture = architecture


def make_waiting_error(waits_for: ConfigRecording, *, name: str, field: str) -> ServiceError:
    """Return the refusal of a question about a waiting model.

    It says how far the recording is, or why there will be none.
    """
    if waits_for.is_refused:
        message = f"{name} could not be recorded: {get_refusal(waits_for)}"
        return ModelNotRecordedError(message, errors=[{"field": field, "message": message}])
    architecture = load_counted(waits_for)
    message = (
        f"{name} is being recorded ({waits_for.progress:.0%}, {waits_for.phase}); ask again in "
        f"{RETRY_AFTER_S} s"
    )
    return WaitingModelError(
        message,
        architecture,
        retry_after_s=RETRY_AFTER_S,
        state="recording",
        job=str(waits_for.job_id),
        progress=waits_for.progress,
        phase=waits_for.phase,
        static=None if architecture is None else describe_weights(architecture),
        bound=None,
    )


def load_counted(waits_for: ConfigRecording) -> RecordedArchitecture | None:
    """Return a model's weights, None before they are counted."""
    return None if waits_for.weights is None else load_weights(waits_for.weights)


def get_refusal(waits_for: ConfigRecording) -> str:
    """Return why there is no recording, in the recorder's words."""
    if waits_for.error is None:
        return "its recording was cancelled; store it again to have it recorded"
    return str(waits_for.error["detail"])


def describe_weights(architecture: RecordedArchitecture) -> Mapping[str, object]:
    """Return parameters and bytes by kind and by number format."""
    counts = architecture.parameter_counts()
    by_kind = dict(counts.by_module)
    return {
        "parameters": counts.total,
        "parameters_by_module": by_kind,
        "weight_bytes": {dtype.value: architecture.weight_bytes(dtype) for dtype in DTYPES},
        "weight_bytes_by_module": {
            dtype.value: {kind: count * dtype.bytes_per_element for kind, count in by_kind.items()}
            for dtype in DTYPES
        },
    }
