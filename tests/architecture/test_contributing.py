"""CONTRIBUTING shows real code: the example is the file that it names."""

import re
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_EXAMPLE = re.compile(r"`(?P<file>[a-z_/]+\.py)`\n\n```python\n(?P<code>.*?)```", re.DOTALL)


def test_the_example_is_the_file_that_it_names() -> None:
    """Who reads how a family is added reads a family that is there."""
    examples = list(_EXAMPLE.finditer((_ROOT / "CONTRIBUTING.md").read_text()))

    assert examples
    for example in examples:
        assert (_ROOT / example["file"]).read_text() == example["code"]


def test_the_paths_are_there() -> None:
    """Whoever looks for a file that it names finds it."""
    text = (_ROOT / "CONTRIBUTING.md").read_text()
    paths = re.findall(r"`((?:service|worker|tests|deploy|docs)/[\w./]+)`", text)

    assert len(paths) > 30
    assert [path for path in paths if not (_ROOT / path).exists()] == []


def test_the_commands_are_targets_of_the_makefile() -> None:
    """Every ``make`` command that CONTRIBUTING tells is one."""
    targets = set(re.findall(r"^([a-z]+):", (_ROOT / "Makefile").read_text(), re.MULTILINE))

    told = set(re.findall(r"^make ([a-z]+)", (_ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE))

    assert told
    assert told <= targets
