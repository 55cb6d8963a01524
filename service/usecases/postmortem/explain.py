"""Explanation of a log or snapshot by itself; pure."""

import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator
from io import BufferedReader, TextIOWrapper

from service.base.explain_errors import NothingToExplainError
from service.formats.failures.accounting import iter_json_failures
from service.formats.failures.failure import FailureLog, FailureSpeaker
from service.formats.failures.places import Place, find_place
from service.formats.failures.scan import MAX_LINE, scan_lines, split_line
from service.formats.failures.snapshots import read_snapshot_failures
from service.formats.measured.containers import load_containers
from service.formats.measured.detect import PICKLE
from service.formats.measured.reading import MeasuredFormatError
from service.formats.measured.text import parse_json
from service.usecases.postmortem.balance import compute_balance
from service.usecases.postmortem.causes import find_causes
from service.usecases.postmortem.changes import list_changes
from service.usecases.postmortem.choice import choose_failure
from service.usecases.postmortem.evidence import Evidence
from service.usecases.postmortem.values import Explanation

_ENGINES = frozenset(
    {
        *(FailureSpeaker.VLLM, FailureSpeaker.SGLANG, FailureSpeaker.TGI, FailureSpeaker.LMDEPLOY),
        *(FailureSpeaker.LLAMA_CPP, FailureSpeaker.TENSORRT_LLM),
    }
)
MAX_DOCUMENT_BYTES = 1 << 30
"""Of a snapshot in a file; a log may have any length."""
_MEMBERS = frozenset({"segments", "device_traces", "jobs"})
_PEEKED = 4096
_DOCUMENT = re.compile(
    rb'"(?:segments|device_traces|allocator_settings|external_annotations|jobs|meta)"'
)
"""Names of a snapshot's or sacct's members, of which one stands at its beginning."""
KINDS = (
    "PyTorch's out-of-memory message (1.0 or later; CUDA, ROCm, XPU, MPS, HPU) with its traceback",
    "the refusals of vLLM, SGLang, TensorRT-LLM, LMDeploy, TGI, llama.cpp and Ollama",
    "NCCL's, cuBLAS's, CUDA's, XLA's and Paddle's own errors",
    "what the kernel, Slurm, Kubernetes and Ray say of a killed process, and sacct's rows",
    "a memory snapshot of torch.cuda.memory._dump_snapshot(), as a pickle or JSON",
)
"""What is read, for whoever sent something else."""


def explain_data(data: bytes) -> Explanation:
    """Return the explanation of a file.

    Raises NothingToExplainError where nothing of it tells a failure, and MeasuredFormatError for a
    broken snapshot.
    """
    return explain_log(read_failures(data))


def explain_stream(handle: BufferedReader) -> Explanation:
    """Return the explanation of an open file.

    A log is read line by line.     Raises as ``explain_data`` does.
    """
    head = handle.peek(_PEEKED)[:_PEEKED]
    if head[:1] == PICKLE or (head.lstrip()[:1] == b"{" and _DOCUMENT.search(head)):
        return explain_data(handle.read(MAX_DOCUMENT_BYTES))
    return explain_log(scan_lines(_iter_stream(handle, _get_encoding(head))))


def _iter_stream(handle: BufferedReader, encoding: str) -> Iterator[tuple[int, str]]:
    """Yield numbered lines, none longer than is looked at."""
    number = 1
    text = TextIOWrapper(handle, encoding=encoding, errors="replace", newline="\n")
    while piece := text.readline(MAX_LINE):
        yield from split_line(number, piece.rstrip("\n"))
        number += piece.endswith("\n")
    text.detach()


def read_failures(data: bytes) -> FailureLog:
    """Return all that a file tells of failures."""
    if data[:1] == PICKLE:
        return _read_document(load_containers(data), size=len(data))
    text = _decode(data)
    document = _parse_document(text)
    if document is not None:
        return _read_document(document, size=len(data))
    return scan_lines(_iter_text(text))


def _parse_document(text: str) -> dict[str, object] | None:
    """Return a snapshot or an accounting as JSON, ``None`` of a log.

    A log may begin with a brace as well, or be one record in JSON.
    """
    if text.lstrip()[:1] != "{":
        return None
    try:
        document = parse_json(text)
    except MeasuredFormatError:
        return None
    return document if isinstance(document, dict) and _MEMBERS & document.keys() else None


def explain_log(log: FailureLog, *, place: Place | None = None) -> Explanation:
    """Return the explanation of what a log tells.

    ``place`` is where it failed, where the log itself does not tell it.
    """
    if not log.failures:
        count = f"{log.num_lines:,} {'line' if log.num_lines == 1 else 'lines'}"
        raise _build_refusal(f"no failure is told in {count}")
    failure = choose_failure(log)
    engine = _name_engine(log)
    place = find_place(failure) or place
    evidence = Evidence(
        failure=failure,
        log=log,
        place=place,
        balance=compute_balance(failure),
        engine=engine,
    )
    causes = find_causes(evidence)
    return Explanation(
        failure=failure,
        log=log,
        place=place,
        balance=evidence.balance,
        causes=causes,
        changes=list_changes(causes, evidence),
        engine=engine,
    )


def _name_engine(log: FailureLog) -> str | None:
    """Return the engine that failed, by its words or the log's."""
    speakers = [failure.speaker.value for failure in log.failures if failure.speaker in _ENGINES]
    return speakers[0] if speakers else log.engine


def _iter_text(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.split("\n"), start=1):
        yield from split_line(number, line)


def _decode(data: bytes) -> str:
    """Return a log's text, whatever bytes are in it.

    PowerShell writes what it redirects in UTF-16, with a byte order mark.
    """
    return data.decode(_get_encoding(data), "replace")


def _get_encoding(head: bytes) -> str:
    return "utf-16" if head[:2] in {BOM_UTF16_LE, BOM_UTF16_BE} else "utf-8-sig"


def _read_document(document: object, *, size: int) -> FailureLog:
    if isinstance(document, dict) and "jobs" in document:
        return FailureLog(failures=tuple(iter_json_failures(document)), num_lines=1)
    if not isinstance(document, dict):
        raise _build_refusal(f"it holds a {type(document).__name__}")
    return read_snapshot_failures(document, size=size)


def _build_refusal(reason: str) -> NothingToExplainError:
    message = f"{reason}; what is read: {'; '.join(KINDS)}"
    return NothingToExplainError(
        message, kinds=list(KINDS), errors=[{"field": "content", "message": reason}]
    )
