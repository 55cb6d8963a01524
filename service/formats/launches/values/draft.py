"""A question that is made of settings, and what became of each."""

import json
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from service.formats.launches.values.errors import PLACES, LaunchFormatError
from service.formats.launches.values.fields import place_field
from service.formats.launches.values.launch import ImportedLaunch, Launcher, OpenQuestion, ReadKey
from service.formats.launches.values.settings import Setting, Settings, is_default, is_unset


class Draft:
    """The question of a launch while it is read.

    Fields are dotted paths of a body of ``POST /v1/fit``, such as ``workload.micro_batch_size``.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self._fields: dict[str, tuple[object, Setting | None]] = {}
        self._read: list[ReadKey] = []
        self._without_effect: list[Setting] = []
        self._ignored: list[Setting] = []
        self._strange: list[Setting] = []
        self._questions: list[OpenQuestion] = []
        self._warnings: list[str] = []
        self._versions: dict[str, str] = {}

    def put(self, field: str, value: object, *settings: Setting) -> None:
        """Set a field to what settings say.

        Raises LaunchFormatError where the field has another value already.
        """
        first = settings[0] if settings else None
        if field in self._fields and self._fields[field][0] != value:
            raise self._refuse_contradiction(field, value, first)
        self._fields.setdefault(field, (value, first))
        self._read += [
            _make_read_key(setting, f"{field} = {_format(value)}") for setting in settings
        ]

    def get(self, field: str) -> object:
        """Return the value of a field, None where it has none."""
        return self._fields[field][0] if field in self._fields else None

    def is_open(self, field: str) -> bool:
        """Return whether a field is asked for."""
        return any(question.field == field for question in self._questions)

    def note(self, setting: Setting, meaning: str) -> None:
        """Tell what a setting means that has no field of its own."""
        self._read.append(_make_read_key(setting, meaning))

    def drop_default(self, field: str) -> None:
        """Leave a field open that defaults alone decide."""
        places = [key.where for key in self._read if key.meaning.startswith(f"{field} = ")]
        if places and all(place.startswith("default") for place in places):
            self._fields.pop(field, None)

    def ignore(self, setting: Setting, reason: str) -> None:
        """Name a setting that counts and has no word here."""
        self._ignored.append(setting)
        self._warnings.append(f"{setting.where}: {setting.key} is ignored: {reason}")

    def drop(self, setting: Setting) -> None:
        """Name a setting that decides neither memory nor time."""
        self._without_effect.append(setting)

    def ignore_switch(self, switch: Setting | None, reason: str) -> None:
        """Name a switch that counts where it is on.

        Off it decides neither memory nor time.
        """
        if switch is None:
            return
        if switch.as_bool():
            self.ignore(switch, reason)
        else:
            self.drop(switch)

    def ask(
        self,
        field: str,
        why: str,
        choices: Iterable[bool | float | str] = (),
        *,
        is_assumed: bool = False,
        lower_bound: int | None = None,
    ) -> None:
        """Ask for a field that the launch does not say.

        The question has no value of it until somebody says one, unless it ``is_assumed``. With
        ``lower_bound`` it takes the least memory.
        """
        question = OpenQuestion(
            field=field,
            why=why,
            choices=tuple(choices),
            is_assumed=is_assumed,
            lower_bound=lower_bound,
        )
        if question not in self._questions:
            self._questions.append(question)

    def warn(self, text: str) -> None:
        """Add a sentence that whoever asks should read."""
        if text not in self._warnings:
            self._warnings.append(text)

    def set_version(self, package: str, version: str) -> None:
        """Name the version of a package whose defaults and keys were used."""
        self._versions.setdefault(package, version)

    def account(self, settings: Settings, without_effect: Iterable[str] = ()) -> None:
        """Sort what nobody took of settings, by patterns of names without effect."""
        patterns = tuple(without_effect)
        for name, setting in settings.list_left():
            is_idle = is_unset(setting) or any(fnmatchcase(name, pattern) for pattern in patterns)
            for settled in (self._without_effect,) if is_idle else (self._ignored, self._strange):
                settled.append(setting)
            settings.take(name)

    def list_strange(self) -> list[Setting]:
        """Return settings that no reader has a word for."""
        return list(self._strange)

    def list_options(self) -> tuple[list[str], list[str]]:
        """Return the command's options that are known, and the others."""
        read, strange = self.list_keys()
        return _keep_options(read), _keep_options(strange)

    def list_keys(self) -> tuple[list[str], list[str]]:
        """Return the settings that are known, and the others."""
        keys = [key.key for key in self._read if not key.where.startswith("default")]
        keys += [setting.key for setting in self._without_effect]
        strange = [setting.key for setting in self._strange]
        return list(dict.fromkeys(keys)), list(dict.fromkeys(strange))

    def finish(self, launcher: Launcher) -> ImportedLaunch:
        """Return the question and what became of each setting.

        One that several readers took is in the list where it counts most.
        """
        question: dict[str, object] = {}
        waiting = {entry.field for entry in self._questions if not entry.is_assumed}
        for field, (value, _) in self._fields.items():
            if field not in waiting:
                place_field(question, field, value)
        places = {(key.key, key.where) for key in self._read}
        ignored = _list_others(self._ignored, places)
        return ImportedLaunch(
            launcher=launcher,
            question=question,
            read=tuple(self._read),
            without_effect=_list_others(self._without_effect, places),
            ignored=ignored,
            questions=tuple(self._questions),
            warnings=tuple(self._warnings),
            versions=dict(self._versions),
            open_fields=self._list_open_fields(),
        )

    def _list_open_fields(self) -> frozenset[str]:
        """Return fields that whoever asks may say otherwise: asked ones, and defaults."""
        open_questions = {question.field for question in self._questions}
        return frozenset(open_questions) | {
            field
            for field, (_, setting) in self._fields.items()
            if setting is None or is_default(setting)
        }

    def _refuse_contradiction(
        self, field: str, value: object, setting: Setting | None
    ) -> LaunchFormatError:
        earlier, source = self._fields[field]
        first = "" if source is None else f" by {source.key} ({source.where})"
        second = "" if setting is None else f" by {setting.key} ({setting.where})"
        where = None if setting is None or setting.where not in PLACES else setting.where
        return LaunchFormatError(
            f"{field} is {_format(earlier)}{first} and {_format(value)}{second}; "
            "say it once, or say the same",
            where=where,
        )


def _list_others(settings: Iterable[Setting], places: set[tuple[str, str]]) -> tuple[str, ...]:
    """Return the names of settings elsewhere, and add their places."""
    others = [setting for setting in settings if (setting.key, setting.where) not in places]
    places |= {(setting.key, setting.where) for setting in others}
    return tuple(dict.fromkeys(setting.key for setting in others))


def _keep_options(keys: Iterable[str]) -> list[str]:
    return [key for key in dict.fromkeys(keys) if key.startswith("-")]


def _make_read_key(setting: Setting, meaning: str) -> ReadKey:
    return ReadKey(key=setting.key, value=setting.value, meaning=meaning, where=setting.where)


def _format(value: object) -> str:
    if isinstance(value, Mapping | list | tuple | bool) or value is None:
        return json.dumps(value)
    return str(value)
