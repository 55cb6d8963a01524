"""Documents of recordings as architectures, and as they are stored; pure."""

import gzip
import io
import json
import threading
from collections import OrderedDict
from collections.abc import Mapping
from hashlib import sha256

from service.estimator.model.recorded.architecture import (
    RecordedArchitecture,
    RecordedBlock,
    build_recorded,
)
from service.estimator.model.recorded.decoding import decode_recording
from service.estimator.model.recorded.encoding import FORMAT, serialize_document
from service.estimator.model.recorded.json_reader import Reader
from service.estimator.model.recorded.recorded_model import get_variant
from service.estimator.passes.config import Generation, ServingPass, TrainingPass
from service.estimator.passes.recorder import log_training
from service.estimator.passes.serving import log_serving
from service.estimator.tape.ledger import Section
from service.estimator.tape.ops.kv_cache_update import CacheState
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import EstimatorError, InvalidConfigError, InvalidInputError
from service.estimator.values.workload import Attention, Cache, Checkpointing, Lora

Document = Mapping[str, object]
MAX_DOCUMENT_BYTES = 64 * 2**20
"""Largest document as JSON; a decoder of two kinds of layers has a tenth of a megabyte."""
MAX_KEPT_BYTES = 4 * 2**20
"""Compressed bytes of the recordings that a process keeps decoded, some fifty times as large."""
MAX_STEPS = 2**21
"""Numbers of its programs that a pass may run through; 512 layers of a decoder, of which none is
like the one before, have 0.8 million.
"""
_COMPRESSION = 16
"""Part of its bytes that a document has when it is compressed, about."""
_RECORDED_REPEATS = 3
"""Most of equal layers that are run: the first, the last and one of those between."""
_FORMATS = {
    "fp32": (DType.FP32, None),
    "half": (DType.BF16, None),
    "autocast": (DType.FP32, DType.BF16),
    "half_autocast": (DType.BF16, DType.BF16),
    "gathered": (DType.BF16, None),
}
_KINDS = {
    "": None,
    "frozen": None,
    "prefill": Section.PREFILL,
    "decode": Section.DECODE,
    "generate/prefill": Section.PREFILL,
    "generate/decode": Section.DECODE,
}
"""What follows the formats in the name of a pass."""


def read_document(document: Document) -> RecordedArchitecture:
    """Return the architecture of a recording's document.

    Each of its passes is run once, so that what is broken is refused here and not in a question;
    not again where the process keeps it. Raises InvalidInputError for what is no recording.
    """
    text = serialize_document(document)
    digest = sha256(text).hexdigest()
    kept = _DECODED.get(digest)
    return kept or _DECODED.store(digest, _check_document(document), len(text) // _COMPRESSION)


def _check_document(document: Document) -> RecordedArchitecture:
    try:
        model = build_recorded(decode_recording(document))
    except InvalidInputError as error:
        # Whoever asks says where the document is.
        error.field = (error.field or "").removeprefix("recording").lstrip(".[") or None
        raise
    except (KeyError, IndexError, ValueError) as error:
        message = f"this recording does not fit together: {error}"
        raise InvalidInputError(message) from error
    for name in model.recorded.passes:
        _check_steps(model, document, name)
        try:
            _run_trial(model, name)
        except EstimatorError:
            raise
        except Exception as error:
            message = f"the pass {name} of this recording does not run: {type(error).__name__}"
            raise InvalidInputError(message, field=f"passes.{name}") from error
    return model


class _Decoded:
    """Architectures of recordings that were asked for last."""

    def __init__(self) -> None:
        """Start without any."""
        self._models: OrderedDict[str, tuple[RecordedArchitecture, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, digest: str) -> RecordedArchitecture | None:
        """Return a recording's architecture, if it is kept."""
        with self._lock:
            if digest not in self._models:
                return None
            self._models.move_to_end(digest)
            return self._models[digest][0]

    def store(self, digest: str, model: RecordedArchitecture, size: int) -> RecordedArchitecture:
        """Keep an architecture of so many compressed bytes, and return it."""
        with self._lock:
            self._models[digest] = (model, size)
            while sum(size for _, size in self._models.values()) > MAX_KEPT_BYTES:
                if len(self._models) == 1:
                    break
                self._models.popitem(last=False)
        return model


_DECODED = _Decoded()


def load_recording(digest: str, packed: bytes) -> RecordedArchitecture:
    """Return the architecture of a stored recording, decoded once in a process.

    Those that were asked for last are kept, as many as have ``MAX_KEPT_BYTES`` when compressed.
    """
    kept = _DECODED.get(digest)
    if kept is not None:
        return kept
    model = build_recorded(decode_recording(unpack_document(packed)))
    return _DECODED.store(digest, model, len(packed))


def load_weights(packed: bytes) -> RecordedArchitecture:
    """Return the tree of a model without passes."""
    return build_recorded(decode_recording(unpack_document(packed), weights_only=True))


def pack_document(document: Document) -> bytes:
    """Return a document compressed, the same bytes for the same content."""
    return gzip.compress(serialize_document(document), mtime=0)


def unpack_document(packed: bytes) -> dict[str, object]:
    """Return the document of a file, compressed or not.

    Raises InvalidConfigError for what is no JSON object, or too large a one.
    """
    try:
        text = _inflate(packed) if packed[:2] == b"\x1f\x8b" else packed
        document = json.loads(text)
    except (OSError, EOFError, ValueError, RecursionError) as error:
        message = f"this is no recording: {error}"
        raise InvalidConfigError(message, field="recording") from None
    if not isinstance(document, dict):
        message = f"a recording is a JSON object, and this is {type(document).__name__}"
        raise InvalidConfigError(message, field="recording")
    return document


def has_newest_format(packed: bytes) -> bool:
    """Return whether a recorder of today writes nothing that a document lacks."""
    return unpack_document(packed).get("format") == FORMAT


def _inflate(packed: bytes) -> bytes:
    with gzip.GzipFile(fileobj=io.BytesIO(packed)) as stream:
        text = stream.read(MAX_DOCUMENT_BYTES + 1)
    if len(text) > MAX_DOCUMENT_BYTES:
        message = f"it has more than {MAX_DOCUMENT_BYTES:,} bytes"
        raise ValueError(message)
    return text


def _check_steps(model: RecordedArchitecture, document: Document, name: str) -> None:
    """Refuse a pass that a short document makes long, layer by layer."""
    programs = Reader(document, "recording").get("passes").get(name).get("blocks").items()
    steps = [_count_steps(program) for program in programs]
    num_steps = sum(
        steps[block.kind] * min(count, _RECORDED_REPEATS) * min(times, _RECORDED_REPEATS)
        for period, times in model.runs()
        for block, count in period
        if isinstance(block, RecordedBlock)
    )
    if num_steps > MAX_STEPS:
        message = (
            f"the layers of the pass {name} run through {num_steps:,} numbers of their programs; "
            f"at most {MAX_STEPS:,} are answered"
        )
        raise InvalidInputError(message, field=f"passes.{name}")


def _count_steps(program: Reader) -> int:
    written = [program.get(name).value for name in ("values", "instructions")]
    return program.get("num_storages").read_count() + _count_numbers(written)


def _count_numbers(part: object) -> int:
    return sum(map(_count_numbers, part)) if isinstance(part, list) else 1


def _run_trial(model: RecordedArchitecture, name: str) -> None:
    """Run a pass once."""
    formats, _, kind = get_variant(name).partition("/")
    domain = model.recorded.passes[name].domain
    length = domain.choose_length() if model.chunked else None
    batched = domain.max_batch != 1
    if formats not in _FORMATS or kind not in _KINDS:
        message = (
            f"this recording has a pass {name!r}; known are {', '.join(_FORMATS)}, each followed "
            f"by nothing or one of {', '.join(f'/{word}' for word in _KINDS if word)}"
        )
        raise InvalidInputError(message, field="passes")
    dtype, autocast = _FORMATS[formats]
    section = _KINDS[kind]
    if section is not None:
        generation = Generation() if kind.startswith("generate/") else None
        serving = ServingPass(
            dtype=dtype,
            attention=Attention.SDPA,
            cache=CacheState(kind=Cache.DYNAMIC),
            generation=generation,
            batched=batched,
            length=length,
            total_length=length,
        )
        log_serving(model, serving, section)
        return
    training = TrainingPass(
        param_dtype=dtype,
        autocast=autocast,
        trains_all=not kind,
        lora=Lora(rank=1) if kind else None,
        checkpointing=Checkpointing.NONE,
        attention=Attention.SDPA,
        keeps_logits=False,
        accumulating=False,
        batched=batched,
        length=length,
        buffer_dtype=DType.FP32 if formats == "gathered" else None,
    )
    log_training(model, training)
