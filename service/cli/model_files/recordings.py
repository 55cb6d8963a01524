"""Files of recordings, beside the config.json that they were made of."""

from importlib import import_module
from pathlib import Path
from typing import Any

from service.base.errors import InvalidRequestError
from service.cli.model_files.json_files import read_config
from service.estimator.model.families.registry import list_model_types
from service.estimator.values.errors import EstimatorError

_SUFFIX = ".recording.json"


def name_recording(config: Path) -> Path:
    """Return where the recording of a config lies unless somebody says otherwise."""
    return config.with_name(f"{config.stem}{_SUFFIX}")


def read_recording(path: Path) -> dict[str, Any]:
    """Return the document in a file, compressed or not."""
    try:
        packed = path.read_bytes()
    except OSError as error:
        message = f"cannot read {path}: {error.strerror}"
        raise InvalidRequestError(message) from None
    documents = import_module("service.usecases.recordings.documents")
    try:
        document: dict[str, Any] = documents.unpack_document(packed)
    except EstimatorError as error:
        message = f"{path}: {error.message}"
        raise InvalidRequestError(message) from None
    return document


def read_config_or_recording(path: Path) -> dict[str, Any]:
    """Return the fields of a request's ``model`` for a config.json.

    Where no module claims its type, and its recording lies beside it, that is taken.
    """
    config = read_config(path)
    beside = name_recording(path)
    if config.get("model_type") in list_model_types() or not beside.is_file():
        return {"hf_config": config}
    document = read_recording(beside)
    configs = import_module("service.usecases.recordings.configs")
    recorded = document.get("config")
    if not isinstance(recorded, dict) or configs.compute_config_digest(
        recorded
    ) != configs.compute_config_digest(config):
        message = (
            f"{beside} was recorded from another config than {path}: `headroom models record "
            f"{path}` records it anew"
        )
        raise InvalidRequestError(message)
    return {"recording": document}
