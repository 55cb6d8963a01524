"""Results of traces that are kept from run to run, as data.

A trace of a small model costs a second of a processor, and says the same until the code that traces
changes. So its result is kept under the question, beside a digest of that code; what is held
against it is computed in every run. Where the code has changed, or the question is new, the model
is traced, once in a process; and so is one of sixteen kept ones in each run, which must find what
was kept.

``python -m tests.traces`` traces all of them anew.
"""

import gzip
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from enum import Enum
from functools import cached_property
from pathlib import Path

from tests.traces.sources import compute_sources_digest

_FOLDER = Path(__file__).parents[1] / "data" / "traces"
_ONE_OF = 16
"""Of so many kept results one is traced in each run, always the same."""


class DifferentTraceError(AssertionError):
    """A trace does not find what was kept of it."""


def encode_question(question: object) -> bytes:
    """Return a question's words, without those that say what is said where they are missing."""
    return json.dumps(_describe(question), sort_keys=True).encode()


def _describe(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        named = {part.name: getattr(value, part.name) for part in fields(value) if part.init}
        defaults = {part.name: _get_default(part) for part in fields(value)}
        return {name: _describe(said) for name, said in named.items() if said != defaults[name]}
    if isinstance(value, Mapping):
        return {str(name): _describe(said) for name, said in value.items()}
    if isinstance(value, (list, tuple)):
        return [_describe(said) for said in value]
    return value.value if isinstance(value, Enum) else value


def _get_default(part: "Field[object]") -> object:
    if part.default_factory is not MISSING:
        return part.default_factory()
    return part.default


@dataclass(kw_only=True)
class TraceStore:
    """Kept results of one kind, by question."""

    name: str
    modules: tuple[str, ...]
    """Those whose code makes them."""
    writing: bool = False
    """Whether everything is traced, and kept at the end."""
    made: dict[str, str] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        """The file that has them."""
        return _FOLDER / f"{self.name}.json.gz"

    @cached_property
    def digest(self) -> str:
        """Digest of the code as it is."""
        return compute_sources_digest(self.modules)

    @cached_property
    def document(self) -> dict[str, dict[str, str] | str]:
        """What the file has, of whatever code."""
        if not self.path.exists():
            return {"sources": "", "results": {}}
        read: dict[str, dict[str, str] | str] = json.loads(gzip.decompress(self.path.read_bytes()))
        return read

    @property
    def is_stale(self) -> bool:
        """Whether other code made what is kept, so that none of it is used."""
        return self.document["sources"] != self.digest

    @cached_property
    def kept(self) -> dict[str, str]:
        """Results that this code made."""
        results = self.document["results"]
        return {} if self.writing or self.is_stale or isinstance(results, str) else results

    def resolve(self, question: object, trace: Callable[[], str]) -> str:
        """Return the result that is kept of a question, else that of its trace."""
        words = encode_question(question)
        key = hashlib.sha256(words).hexdigest()[:32]
        if key in self.made:
            return self.made[key]
        kept = self.kept.get(key)
        if kept is not None and int(key, 16) % _ONE_OF:
            return kept
        traced = trace()
        self.made[key] = traced
        if kept not in {None, traced}:
            message = (
                f"a trace differs from what {self.path.name} has of it, though the code that "
                "traces is the same: python -m tests.traces traces all anew. If that changes the "
                f"file without a reason, traces depend on something else.\n{words.decode()}\n"
                f"traced {traced}\nkept {kept}"
            )
            raise DifferentTraceError(message)
        return traced

    def write(self, *, adds: bool) -> None:
        """Keep what was traced, and nothing else unless it adds to what is there."""
        # Whoever adds other traces meanwhile may have written since.
        self.__dict__.pop("document", None)
        there = {} if self.is_stale or not adds else self.document["results"]
        assert isinstance(there, dict)
        results = dict(sorted({**there, **self.made}.items()))
        document = {"sources": self.digest, "results": results}
        packed = json.dumps(document, separators=(",", ":")).encode()
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_bytes(gzip.compress(packed, mtime=0))


POINTS = TraceStore(name="points", modules=("worker.probes.trace.backend",))
"""Points that a probe runs on fake tensors."""
RECORDINGS = TraceStore(name="recordings", modules=("worker.probes.architecture.record",))
"""Recordings of models."""
PHASES = TraceStore(name="phases", modules=("worker.probes.trace.run", "tests.accuracy.traced"))
"""Peaks of cases that were traced independently."""
STORES = (POINTS, RECORDINGS, PHASES)
