"""``headroom models record``: a config recorded on this machine."""

import argparse
import gzip
import sys
from pathlib import Path

from service.base.errors import InvalidRequestError
from service.base.packages import list_missing_packages
from service.cli.model_files.json_files import read_config
from service.cli.model_files.recordings import name_recording
from service.estimator.values.errors import EstimatorError
from service.estimator.values.units import format_count
from service.usecases.recordings.documents import pack_document
from service.usecases.recordings.recorder import (
    DEADLINE_S,
    PACKAGES,
    Died,
    Recorded,
    Refused,
    StaticPart,
    Update,
    record_config,
)

_COMPRESSED = ".gz"


def record(options: argparse.Namespace) -> int:
    """Record the config that is named, and write the document."""
    if options.name is None:
        message = "which config? headroom models record config.json [-o FILE]"
        raise InvalidRequestError(message)
    path = Path(options.name)
    config = read_config(path)
    _require_packages()
    try:
        outcome = record_config(config, on_update=_show_update)
    except EstimatorError as error:
        raise InvalidRequestError(error.message) from error
    match outcome:
        case Recorded(document=document):
            target = options.output or name_recording(path)
            _write(target, pack_document(document))
            sys.stdout.write(
                f"{target} is a recording of {document['model_class']}: `headroom fit --recording "
                f"{target} …` answers from it\n"
            )
            return 0
        case Refused(message=message) | Died(reason=message):
            raise InvalidRequestError(message)
        case _:
            message = f"recording took longer than {DEADLINE_S:.0f} s and was ended"
            raise InvalidRequestError(message)


def _require_packages() -> None:
    missing = list_missing_packages(PACKAGES)
    if missing:
        message = (
            f"recording runs transformers' own code and needs {' and '.join(missing)}, which are "
            "not installed here: pip install 'gpu-headroom[worker]', or record where they are and "
            "bring the file, --recording FILE"
        )
        raise InvalidRequestError(message)


def _show_update(update: Update) -> None:
    if isinstance(update, StaticPart):
        built = f"as transformers {update.transformers} builds it"
        line = f"{format_count(update.total)} parameters, {built}"
    else:
        line = f"{update.fraction:4.0%} {update.phase}"
    sys.stderr.write(f"headroom: {line}\n")
    sys.stderr.flush()


def _write(path: Path, packed: bytes) -> None:
    """Write a document at once or not at all.

    It is compressed where the name says so.
    """
    part = path.with_name(f"{path.name}.part")
    try:
        if path.suffix != _COMPRESSED:
            packed = gzip.decompress(packed)
        part.write_bytes(packed)
        part.replace(path)
    except OSError as error:
        message = f"cannot write {path}: {error.strerror}"
        raise InvalidRequestError(message) from None
