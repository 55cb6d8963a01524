"""The examples of the documentation where nobody answers, where a key is none, and where it takes
too long.
"""

import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from deploy.release.native.staging import write_front
from tests.unit.client.builders import measurement

REPOSITORY = Path(__file__).resolve().parents[3]
EXAMPLES = REPOSITORY / "docs" / "examples"
CALLS = {
    "ci_guard": (__file__,),
    "measure_and_compare": ("gpt2", "--timeout", "0"),
    "scheduler": ("gpt2", "--cluster", "prod-a", "--holder", "me"),
}
RunExample = Callable[[str], int]


@pytest.fixture(name="run_example")
def runner(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> RunExample:
    """Return a function that runs an example by its name and returns its exit code."""
    write_front(REPOSITORY, tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("headroom", "headroom.models"):
        monkeypatch.delitem(sys.modules, name, raising=False)

    def run(name: str) -> int:
        monkeypatch.setattr(sys, "argv", [name, *CALLS[name]])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        assert isinstance(ended.value.code, int)
        return ended.value.code

    return run


@pytest.mark.parametrize("name", sorted(CALLS))
def test_a_key_that_is_none_is_told(
    run_example: RunExample,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
) -> None:
    """In a line, and with the exit code of a question that was not answered."""
    monkeypatch.setenv("HEADROOM_API_KEY", "no key")

    assert run_example(name) == 2
    assert "one word of ASCII" in "".join(capsys.readouterr())


@pytest.mark.parametrize("name", ["measure_and_compare", "scheduler"])
def test_a_refusal_is_told(
    run_example: RunExample,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
) -> None:
    """In the server's words."""
    refusal = httpx.Response(
        403, json={"type": "forbidden", "title": "No", "detail": "this key may only read"}
    )
    monkeypatch.setattr(httpx.Client, "request", lambda *_, **__: refusal)

    assert run_example(name) == 2
    assert capsys.readouterr().err == "this key may only read\n"


def test_a_measurement_that_is_not_over_in_time_is_no_failure(
    run_example: RunExample, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It goes on, which is another exit code than that of one that failed."""
    asked = httpx.Response(202, json=measurement())
    monkeypatch.setattr(httpx.Client, "request", lambda *_, **__: asked)

    assert run_example("measure_and_compare") == 2
    assert "measurement m1 is not over in time; it goes on" in capsys.readouterr().err
