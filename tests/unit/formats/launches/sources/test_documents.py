"""YAML and JSON of launches: leaves by path with their lines, and nothing that grows."""

import pytest

from service.formats.launches.sources.documents import flatten, read_document
from service.formats.launches.sources.limits import MAX_CHARACTERS
from service.formats.launches.values.errors import LaunchFormatError
from tests.unit.formats.launches.importing import import_launch

BOMB = "a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{chr(98 + level)}: &{chr(98 + level)} [{','.join(['*' + chr(97 + level)] * 10)}]\n"
    for level in range(8)
)


def test_a_leaf_has_its_path_and_its_line() -> None:
    """Mappings are walked, lists are leaves, and each leaf says where it stands."""
    settings = read_document("t.yaml", "a: 1\nb:\n  c: [1, 2]\n  d: null\n")

    leaves = {name: settings.take_all()[name] for name in settings}

    assert {name: (one.value, one.where) for name, one in leaves.items()} == {
        "a": (1, "t.yaml:1"),
        "b.c": ([1, 2], "t.yaml:3"),
        "b.d": (None, "t.yaml:4"),
    }


def test_json_with_tabs_is_read() -> None:
    """Editors indent JSON by tabs, which YAML forbids."""
    settings = read_document("ds.json", '{\n\t"zero_optimization": {"stage": 3}\n}')

    stage = settings.take("zero_optimization.stage")

    assert stage is not None
    assert (stage.value, stage.where) == (3, "ds.json:2")


def test_an_alias_stands_for_what_it_names() -> None:
    """A merged mapping gives its keys."""
    settings = read_document("t.yaml", "x: &x {q: 2}\ny:\n  <<: *x\n")

    merged = settings.take("y.q")

    assert merged is not None
    assert merged.value == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x: &x {q: 2, r: 3}\ny:\n  q: 1\n  <<: *x\n", {"y.q": 1, "y.r": 3}),
        ("x: &x {q: 2, r: 3}\ny:\n  <<: *x\n  q: 1\n", {"y.q": 1, "y.r": 3}),
        ("x: &x {q: {a: 1}}\ny:\n  q: {b: 2}\n  <<: *x\n", {"y.q.b": 2}),
        ("x: &x {q: 2}\nz: &z {q: 3, r: 4}\ny:\n  <<: [*x, *z]\n", {"y.q": 2, "y.r": 4}),
        ("x: &x {q: 2}\ny:\n- q: 1\n  <<: *x\n- <<: *x\n", {"y": [{"q": 1}, {"q": 2}]}),
        ('y: {"<<": 1}', {"y.<<": 1}),
    ],
    ids=["after", "before", "whole", "several", "in a list", "quoted"],
)
def test_merged_keys_lose_to_a_mappings_own(text: str, expected: dict[str, object]) -> None:
    """As YAML has it: wherever the merge stands, values whole, the first of several mappings."""
    leaves = read_document("t.yaml", text).take_all()

    found = {name: one.value for name, one in leaves.items() if name.startswith("y")}
    assert found == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, "those of aliases counted"),
        ("a: " + "[" * 500, "nested too deeply"),
        ('{"a":' * 500, "nested too deeply"),
        ("a: &a\n  b: *a", "nested too deeply"),
        ("a: &a\n  <<: *a", "nested too deeply"),
        ("a:\n  <<: 1", "t.yaml:2: << merges mappings"),
        ("- 1\n- 2", "expected a mapping"),
        ("", "expected a mapping"),
        ("a: [1,\nb: 2", "neither YAML nor JSON"),
        ("a: b\0", "NUL"),
        ("a: " + "x" * MAX_CHARACTERS, "characters"),
    ],
    ids=[
        "aliases",
        "lists",
        "objects",
        "cycle",
        "merged cycle",
        "merged scalar",
        "list",
        "empty",
        "broken",
        "nul",
        "long",
    ],
)
def test_what_no_launch_file_is_is_refused(text: str, message: str) -> None:
    """Bombs end before anything is built of them."""
    with pytest.raises(LaunchFormatError, match=message):
        read_document("t.yaml", text)


def test_no_tag_makes_an_object() -> None:
    """A tag of Python's is no value of Python's: what it is on is text or a list."""
    settings = read_document("t.yaml", "a: !!python/object/apply:os.system [ls]\n")

    value = settings.take("a")

    assert value is not None
    assert value.value == ["ls"]


def test_arguments_are_bounded_as_files_are() -> None:
    """A nested object of a request is walked without recursion, and ends."""
    nested: dict[str, object] = {}
    for _ in range(100):
        nested = {"a": nested, "b": 1}

    with pytest.raises(LaunchFormatError, match="nested too deeply"):
        flatten(nested, "arguments")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yaml", "base_model: a/b\nadapter: lora\nmicro_batch_size: 0x{}\n"),
        ("a.toml", "[training]\nlocal_batch_size = 0x{}\n"),
        ("a.toml", "[training]\nlocal_batch_size = [0x{}]\n"),
    ],
)
def test_a_number_of_thousands_of_digits_is_refused(name: str, text: str) -> None:
    """Python writes no number of more than 4,300 digits as text."""
    with pytest.raises(LaunchFormatError):
        import_launch({name: text.format("f" * 5_000)})


def test_a_number_that_no_float_holds_is_text() -> None:
    """One of a base of sixty would be made in the square of its length: 14 s for 0.9 MB."""
    text = "1" + ":1" * 450_000

    value = read_document("t.yaml", f"a: {text}\nb: 1:30\n")

    assert (value.take("a").value, value.take("b").value) == (text, 90)  # type: ignore[union-attr]
