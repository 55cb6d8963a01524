"""Settings and drafts: values as their types, everything accounted for, nothing said twice."""

from collections.abc import Callable

import pytest

from service.formats.launches.values.draft import Draft
from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.launch import Launcher
from service.formats.launches.values.settings import Setting, Settings, make_default


def make(value: object, key: str = "k") -> Setting:
    """Return a setting in a file."""
    return Setting(key=key, value=value, where="t.yaml:3")


@pytest.mark.parametrize(
    ("read", "value", "expected"),
    [
        (Setting.as_int, "8", 8),
        (Setting.as_int, 8.0, 8),
        (Setting.as_int, "1_000", 1000),
        (Setting.as_float, "1e-4", 1e-4),
        (Setting.as_bool, "True", True),
        (Setting.as_bool, "off", False),
        (Setting.as_text, " a ", "a"),
        (Setting.as_list, "a, b c", ["a", "b", "c"]),
        (Setting.as_list, ["a"], ["a"]),
    ],
)
def test_a_value_is_what_its_type_says(
    read: Callable[[Setting], object], value: object, expected: object
) -> None:
    """Command lines and YAML spell the same value in several ways."""
    assert read(make(value)) == expected


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (Setting.as_int, "two"),
        (Setting.as_int, True),
        (Setting.as_int, -1),
        (Setting.as_int, 1.5),
        (Setting.as_int, "9" * 5000),
        (Setting.as_float, "nan"),
        (Setting.as_float, 10**400),
        (Setting.as_float, "x"),
        (Setting.as_bool, "maybe"),
        (Setting.as_text, 3),
        (Setting.as_list, 3),
    ],
)
def test_a_value_of_another_type_is_refused_where_it_stands(
    read: Callable[[Setting], object], value: object
) -> None:
    """The refusal names file, line and key, and what would be right."""
    with pytest.raises(LaunchFormatError, match=r"t\.yaml:3: k is .*; expected"):
        read(make(value))


def test_a_choice_is_refused_with_its_choices() -> None:
    """In either case of its letters; another word is refused."""
    choices = {"eager": 1, "sdpa": 2}

    assert make("SDPA").as_choice(choices) == 2
    with pytest.raises(LaunchFormatError, match="one of eager, sdpa"):
        make("x").as_choice(choices)


def test_everything_is_accounted_for_once() -> None:
    """Read, without effect by a pattern or because it is null, or ignored and named."""
    settings = Settings([make(2, "batch"), make(1, "logging_steps"), make(None, "n"), make(3, "x")])
    draft = Draft()
    batch = settings.take("batch")
    assert batch is not None
    draft.put("workload.micro_batch_size", batch.as_int(), batch)

    draft.account(settings, ["logging_*"])
    draft.account(settings)
    imported = draft.finish(Launcher.TRAINER)

    assert [one.key for one in imported.read] == ["batch"]
    assert imported.read[0].meaning == "workload.micro_batch_size = 2"
    assert imported.without_effect == ("logging_steps", "n")
    assert imported.ignored == ("x",)
    assert imported.question == {"workload": {"micro_batch_size": 2}}


def test_two_that_contradict_each_other_are_refused() -> None:
    """Both places are named; the same value twice is none."""
    draft = Draft()
    draft.put("layout.zero_stage", 3, make(3, "stage"))
    draft.put("layout.zero_stage", 3, make(3, "again"))

    with pytest.raises(LaunchFormatError, match=r"3 by stage \(t\.yaml:3\) and 2 by other"):
        draft.put("layout.zero_stage", 2, make(2, "other"))


def test_a_default_leaves_a_field_open() -> None:
    """What was left out may be said otherwise by whoever asks."""
    draft = Draft()
    draft.put("workload.sequence_length", 1024, make_default("max_length", 1024, "TRL"))
    draft.put("workload.micro_batch_size", 2, make(2))
    draft.ask("workload.lora.rank", "why", (8,))

    imported = draft.finish(Launcher.TRL_SFT)

    assert imported.open_fields == {"workload.sequence_length", "workload.lora.rank"}
    assert imported.read[0].where == "default: TRL"
