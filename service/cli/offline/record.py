"""``python -m service.cli.offline.record DIRECTORY``: record the catalogue's models ahead of time.

A server starts it beside itself where HEADROOM_CACHE_DIR is set. It is a process of its own at the
lowest priority, that rests as long as it works: no request waits for it.
"""

import fcntl
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from service.base.errors import ServiceError
from service.catalog.models import list_models
from service.cli.offline.inline import Document, resolve_offline_model
from service.contract.schemas.fit import FitRequest
from service.contract.to_question.fits import read_fit
from service.contract.to_question.validation_errors import decode
from service.estimator.cache import PlanCache
from service.estimator.values.errors import EstimatorError
from service.runtime.recording_files import RecordingFiles
from service.usecases.questions.fit import judge_fit

GPU = "H100-SXM5-80GB"
SEQUENCE_LENGTH = 512
"""Recordings answer every length; all models of the catalogue take this one."""
_FULL = {"activation_checkpointing": "full"}
_LORA = {"method": "lora", "lora": {"rank": 16}}
_QLORA = {"method": "qlora", "lora": {"rank": 16}}
_FSDP = {"data_parallel": 8, "zero_stage": 3, "sharding": "fsdp2"}
SHAPES: tuple[tuple[Document, Document], ...] = (
    ({}, {}),
    (_FULL, {}),
    (_LORA, {}),
    (_LORA | _FULL, {}),
    (_QLORA | _FULL, {}),
    ({}, _FSDP),
    (_FULL, _FSDP),
)
"""Workloads and layouts that are asked most, each with one sequence at once and with two."""
_NICEST = 19


def main(arguments: Sequence[str] | None = None) -> int:
    """Record what is missing from the folder.

    Nothing is done where another process is recording or has finished.
    """
    (directory,) = sys.argv[1:] if arguments is None else arguments
    os.nice(_NICEST)
    with suppress(OSError):  # a container may forbid it
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    with suppress(OSError):  # a folder that cannot be written keeps nothing, and stops nobody
        record_catalogue(Path(directory), rest=time.sleep)
    return 0


def record_catalogue(cache_dir: Path, *, rest: Callable[[float], None]) -> int:
    """Record the common questions of every model once.

    Returns the number of questions asked. ``rest`` waits for so many seconds after each.
    """
    cache_dir.mkdir(parents=True, exist_ok=True)
    files = RecordingFiles(cache_dir)
    with (cache_dir / "recording.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return 0
        if files.is_complete():
            return 0
        documents = list(list_documents())
        for document in documents:
            begin = time.process_time()
            _record(document, files)
            rest(time.process_time() - begin)
        files.mark_complete()
    return len(documents)


def list_documents() -> Iterator[Document]:
    """Yield the requests whose passes are recorded."""
    for name in (entry.name for entry in list_models() if entry.supported):
        for workload, layout in SHAPES:
            for micro_batch_size in (1, 2):
                sizes = {"sequence_length": SEQUENCE_LENGTH, "micro_batch_size": micro_batch_size}
                yield {
                    "model": name,
                    "gpu": GPU,
                    "workload": {"task": "train", **sizes, **workload},
                    "layout": layout,
                }


def _record(document: Document, files: RecordingFiles) -> None:
    """Answer a request to fill the files.

    A request that is refused leaves nothing there.
    """
    request = decode(document, FitRequest)
    question = read_fit(request, resolve_offline_model(request.model))
    try:
        judge_fit(question, plans=PlanCache(store=files))
    except (EstimatorError, ServiceError):
        return


if __name__ == "__main__":
    sys.exit(main())
