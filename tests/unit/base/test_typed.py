"""Types that several threads meet for the first time together."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from service.base.typed import convert, get_decoder

ROOT = Path(__file__).parents[3]
TOGETHER = """
import sys
from dataclasses import make_dataclass
from threading import Barrier, Thread
from service.base.typed import convert

def nested(name, depth):
    inner = [] if depth == 0 else [("inner", nested(name, depth - 1) | None, None)]
    return make_dataclass(f"{name}_{depth}", [*inner, *((f"f{number}", int | None, None) for number in range(12))])

def first(kind, barrier, results):
    barrier.wait()
    results.append(convert({"inner": {"inner": {"f1": 1}}}, kind).inner.inner.f1)

sys.setswitchinterval(1e-6)
for number in range(30):
    kind, barrier, results = nested(f"N{number}", 4), Barrier(4), []
    threads = [Thread(target=first, args=(kind, barrier, results)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [1] * 4, results
"""  # noqa: E501


def test_threads_may_meet_a_type_together() -> None:
    """What several convert to at once for the first time is whole for each; without the lock the
    process ends by a signal.
    """
    done = subprocess.run(
        [sys.executable, "-c", TOGETHER],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_a_decoder_is_made_once() -> None:
    """The same type has the same decoder, a union of types has one too, and what is no such value
    is refused.
    """
    assert get_decoder(int | str) is get_decoder(int | str)
    assert get_decoder(int | str).decode(b'"a"') == "a"
    with pytest.raises(msgspec.ValidationError, match="Expected `int`"):
        convert("a", int)


def test_nobody_else_looks_a_type_through() -> None:
    """No module of the service or worker hands msgspec a type itself: it would do so in whatever
    thread it is.
    """
    sources = {
        path: path.read_text()
        for room in ("service", "worker")
        for path in (ROOT / room).rglob("*.py")
    }
    del sources[ROOT / "service" / "base" / "typed.py"]

    assert [
        f"{path}:{line}"
        for path, text in sources.items()
        if "msgspec" in text
        for line in typed_calls(text)
    ] == []


def typed_calls(text: str) -> Iterator[int]:
    """Yield the lines of calls that look a type through."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        decodes = called == "msgspec.json.decode" and (
            len(node.args) > 1 or any(one.arg == "type" for one in node.keywords)
        )
        if decodes or called in {"msgspec.convert", "msgspec.json.Decoder"}:
            yield node.lineno
