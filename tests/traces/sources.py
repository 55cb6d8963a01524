"""Digest of the code that a trace rests on."""

import ast
import hashlib
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

_REPOSITORY = Path(__file__).parents[2]
_OURS = ("service", "worker")
_LIBRARIES = ("torch", "transformers", "peft")
_HELD = tuple(f"service/estimator/{name}/" for name in ("model", "passes", "rules", "tape"))
"""Rooms whose answers are held against traces, and are computed in every run.

What a trace takes of them belongs to it, what stands behind that does not: else no change of a
formula would be compared with the traces that were there before.
"""
_LEFT_OUT = (
    *("service/base/", "service/runtime/", "service/telemetry/"),
    *("service/estimator/values/", "service/estimator/model/families/"),
)
"""Words of questions, which are a part of what is kept, and what says nothing of bytes.

They change with each new switch and family. What of them a trace rests on all the same shows in
those that are traced in each run.
"""


def compute_sources_digest(modules: Sequence[str]) -> str:
    """Return the digest of modules, of what they import, and of the libraries that they run."""
    digest = hashlib.sha256()
    for library in _LIBRARIES:
        digest.update(f"{library} {version(library)}\n".encode())
    digest.update(f"python {sys.version_info.major}.{sys.version_info.minor}\n".encode())
    for name, content in sorted(collect_sources(modules).items()):
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def collect_sources(modules: Sequence[str]) -> dict[str, bytes]:
    """Return the content of each file by its name in the repository."""
    sources: dict[str, bytes] = {}
    waiting = list(modules)
    while waiting:
        name = f"{waiting.pop().replace('.', '/')}.py"
        path = _REPOSITORY / name
        if name in sources or name.startswith(_LEFT_OUT) or not path.is_file():
            continue
        sources[name] = path.read_bytes()
        if not name.startswith((*_HELD, "tests/")):
            waiting += _iterate_imports(sources[name])
    return sources


def _iterate_imports(source: bytes) -> Iterator[str]:
    """Yield what may be modules of ours among what a module imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] in _OURS:
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
