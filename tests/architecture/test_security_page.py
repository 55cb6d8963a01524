"""docs/security.md names tests that there are: a bound without one is a promise."""

import ast
import re
from pathlib import Path

from service.api.computing.reading import (
    LEAST_MEMORY_BYTES,
    MEMORY_RATIO,
    MOST_MEMORY_BYTES,
)
from service.api.computing.search_processes import MEMORY_BYTES
from service.api.http.decoding import MAX_BODY_BYTES, MAX_DEPTH
from service.api.resources.batch import MAX_ITEM_VALUES
from service.contract.schemas.batch import MAX_ITEMS
from service.formats.checkpoints.gguf_header import MAX_HEADER_BYTES, MAX_TENSORS
from service.formats.launches.sources.limits import MAX_CHARACTERS, MAX_NODES
from service.jobs.codec import MAX_DATA_BYTES
from service.runtime.children.child import KEPT_BYTES
from service.runtime.settings import Settings
from service.usecases.hub.reading import DEADLINE_S, MAX_TOTAL_BYTES

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs" / "security.md").read_text()
_NAMED = re.compile(r"`(tests/[a-z0-9_/]+\.py)(?:::(test_[a-z0-9_]+))?`")
_LEAST = 15


def _list_functions(file: str) -> set[str]:
    tree = ast.parse((REPOSITORY / file).read_text())
    return {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_every_test_of_the_page_is_there() -> None:
    """A test that is renamed or removed takes its line with it."""
    named = _NAMED.findall(PAGE)

    missing = [
        (file, name)
        for file, name in named
        if not (REPOSITORY / file).is_file() or (name and name not in _list_functions(file))
    ]
    assert missing == []
    assert len(named) > _LEAST


def test_every_number_of_the_page_is_the_codes() -> None:
    """A bound that is moved is moved on the page too."""
    settings, mib = Settings(), 2**20
    bounds = {
        "| a body |": f"{MAX_BODY_BYTES:,} bytes",
        "| nesting of JSON |": f"{MAX_DEPTH} ",
        "| processor's time": f"({settings.question_budget_s:g} s)",
        "| memory of one search |": (
            f"{MEMORY_BYTES // mib:,} MiB in a process of its own kind, which keeps "
            f"{KEPT_BYTES // mib} MiB at most"
        ),
        "| a GGUF header |": f"{MAX_HEADER_BYTES // mib} MiB, {MAX_TENSORS:,} tensors",
        "| YAML": f"{MAX_CHARACTERS:,} characters, {MAX_NODES:,} values",
        "| a job in Redis |": f"{MAX_DATA_BYTES:,} bytes",
        "| a hub |": f"{DEADLINE_S:g} s, {MAX_TOTAL_BYTES // mib} MiB",
        "| memory and time of reading": (
            f"{LEAST_MEMORY_BYTES // mib} MiB and {MEMORY_RATIO} bytes for each byte, "
            f"{MOST_MEMORY_BYTES // mib:,} MiB at most"
        ),
        "| values of a batch |": f"{MAX_ITEMS * MAX_ITEM_VALUES:,}",
        "| a scheduler's hook |": f"({settings.hook_deadline_s:g} s)",
    }

    lines = PAGE.splitlines()
    for head, bound in bounds.items():
        [line] = [line for line in lines if line.startswith(head)]
        assert bound in line, head
