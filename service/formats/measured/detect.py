"""Detection of a file's format, and its parsing.

The format is detected from the file, or declared by the sender.
"""

from collections.abc import Callable, Mapping

from service.formats.measured.containers import load_containers
from service.formats.measured.node_report import MARK, parse_node_report
from service.formats.measured.nvidia_smi import DEVICE_COLUMNS, PROCESS_COLUMNS, parse_nvidia_smi
from service.formats.measured.prometheus import METRIC, parse_exposition, parse_query
from service.formats.measured.reading import Format, MeasuredFormatError, Parsed
from service.formats.measured.sacct import ID_COLUMNS, parse_sacct
from service.formats.measured.sacct_json import parse_sacct_json
from service.formats.measured.sglang import parse_sglang
from service.formats.measured.smi_table import TABLE
from service.formats.measured.snapshot import PEAKS, parse_memory_stats, parse_snapshot
from service.formats.measured.text import decode_text, parse_json
from service.formats.measured.trainer import PEAKED, parse_trainer
from service.formats.measured.vllm import parse_vllm

PICKLE = b"\x80"
_NVIDIA_SMI = ("# gpu", "#Date", "# Date")
_VLLM = (
    "vLLM",
    "vllm",
    "GPU KV cache size",
    "Available KV cache memory",
    "# GPU blocks",
    "model weights take",
)
_SGLANG = ("Load weight end", "max_total_num_tokens=", "sglang", "SGLang")

Json = Mapping[str, object]


def parse(data: bytes, *, declared: Format | None = None) -> Parsed:
    """Return the readings of a file.

    Raises MeasuredFormatError, and nothing else, for a file that has no such format.
    """
    if not data.strip():
        message = "is empty"
        raise MeasuredFormatError(message)
    try:
        return _parse_pickle(data, declared) if data[:1] == PICKLE else _parse_text(data, declared)
    except RecursionError:
        message = "is nested too deeply"
        raise MeasuredFormatError(message) from None


def _parse_text(data: bytes, declared: Format | None) -> Parsed:
    text = decode_text(data)
    if text.lstrip()[:1] == "{" and (
        declared in (None, Format.SNAPSHOT) or declared in _JSON_PARSERS
    ):
        return _parse_json(_read_json_object(text), declared, size=len(data))
    detected = declared if declared is not None else _detect(text)
    if detected not in _TEXT_PARSERS:
        message = (
            f"is text, and {detected.value} is "
            f"{'a pickle or ' if detected is Format.SNAPSHOT else ''}JSON"
        )
        raise MeasuredFormatError(message)
    return _TEXT_PARSERS[detected](text)


def _parse_pickle(data: bytes, declared: Format | None) -> Parsed:
    if declared is not None and declared is not Format.SNAPSHOT:
        message = f"is a pickle; expected {declared.value}, which is none"
        raise MeasuredFormatError(message)
    document = load_containers(data)
    if not isinstance(document, dict):
        message = (
            f"holds a {type(document).__name__}; expected the object that "
            "torch.cuda.memory._dump_snapshot() writes"
        )
        raise MeasuredFormatError(message)
    return parse_snapshot(document, size=len(data))


def _read_json_object(text: str) -> Json:
    document = parse_json(text)
    if not isinstance(document, dict):
        message = "is no JSON object"
        raise MeasuredFormatError(message)
    return document


def _parse_json(document: Json, declared: Format | None, *, size: int) -> Parsed:
    detected = declared if declared is not None else _detect_json(document)
    if detected is Format.SNAPSHOT:
        return parse_snapshot(document, size=size)
    return _JSON_PARSERS[detected](document)


def _detect_json(document: Json) -> Format:
    marks: tuple[tuple[Format, bool], ...] = (
        (Format.SACCT, "jobs" in document),
        (Format.PROMETHEUS, "status" in document and ("data" in document or "error" in document)),
        (Format.SNAPSHOT, "segments" in document),
        (Format.TRAINER, PEAKED in document),
        (Format.MEMORY_STATS, _has_stats(document)),
    )
    matches = [name for name, is_match in marks if is_match]
    if len(matches) != 1:
        names = ", ".join(name.value for name in matches) or "none that is known"
        message = (
            f"is JSON of the form of {names}; expected that of sacct --json, of Prometheus's "
            "/api/v1/query, of a memory snapshot, of torch.cuda.memory_stats() or of "
            "train_results.json: say which with format"
        )
        raise MeasuredFormatError(message)
    return matches[0]


def _has_stats(document: Json) -> bool:
    return any(
        name in part
        for part in (document, *document.values())
        if isinstance(part, Mapping)
        for name in PEAKS
    )


def _detect(text: str) -> Format:
    head = text.lstrip()[:4096]
    first = head.partition("\n")[0]
    columns = {name.strip().partition(" [")[0] for name in first.split(",")}
    if first.startswith(MARK):
        return Format.NODE
    if any(name in first.split("|")[0] for name in ID_COLUMNS):
        return Format.SACCT
    if (
        TABLE.search(text)
        or head.startswith(_NVIDIA_SMI)
        or columns & {*DEVICE_COLUMNS, *PROCESS_COLUMNS}
    ):
        return Format.NVIDIA_SMI
    matches = [
        name
        for name, marks in (
            (Format.PROMETHEUS, (METRIC,)),
            (Format.SGLANG, _SGLANG),
            (Format.VLLM, _VLLM),
        )
        if any(mark in text for mark in marks)
    ]
    if not matches:
        message = (
            f"no format is recognised in {first[:60]!r}; expected the output of sacct -P with its "
            "header, nvidia-smi, a page of the DCGM exporter, or a start-up log of vLLM or "
            "SGLang: say which with format"
        )
        raise MeasuredFormatError(message, line=1)
    return matches[0]


_TEXT_PARSERS: Mapping[Format, Callable[[str], Parsed]] = {
    Format.SACCT: parse_sacct,
    Format.PROMETHEUS: parse_exposition,
    Format.VLLM: parse_vllm,
    Format.SGLANG: parse_sglang,
    Format.NVIDIA_SMI: parse_nvidia_smi,
    Format.NODE: parse_node_report,
}
_JSON_PARSERS: Mapping[Format, Callable[[Json], Parsed]] = {
    Format.SACCT: parse_sacct_json,
    Format.PROMETHEUS: parse_query,
    Format.MEMORY_STATS: parse_memory_stats,
    Format.TRAINER: parse_trainer,
}
