"""Readers of launches: what each is told by, and what it reads."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from service.formats.launches.sources.argv import read_argv
from service.formats.launches.sources.commands import Command
from service.formats.launches.sources.handed_in import HandedIn, is_shell
from service.formats.launches.sources.notebooks import is_python
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.launch import Launcher

_IMPORT = re.compile(r"^[ \t]*(?:from|import)[ \t]+(\w+)", re.MULTILINE)
PROGRAM, _MARK = 1000, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Reader of one launcher's settings.

    ``versions`` are the packages whose keys and defaults it knows. ``programs`` are what a command
    starts (a script's name, or a module); ``marks`` are keys of documents or arguments that tell
    this launcher from the others, by their dotted paths, and ``hints`` keys that others have too.
    They tell no more than ``hint_limit``. ``packages`` are imported by this launcher's Python files
    alone. Options of any other program tell nothing unless
    ``knows_options``. ``scripts`` are texts of Python or TOML that tell this launcher,
    ``idle`` patterns of options that decide nothing, whatever their value.
    """

    launcher: Launcher
    versions: Mapping[str, str]
    read: Callable[[HandedIn, Draft], None]
    programs: frozenset[str] = field(default_factory=frozenset)
    marks: frozenset[str] = field(default_factory=frozenset)
    hints: frozenset[str] = field(default_factory=frozenset)
    packages: frozenset[str] = field(default_factory=frozenset)
    knows_options: bool = True
    hint_limit: int = _MARK - 1
    scripts: frozenset[str] = field(default_factory=frozenset)
    idle: tuple[str, ...] = ()

    def count_marks(self, handed_in: HandedIn) -> int:
        """Return how much tells for this launcher; 0 for nothing."""
        command = handed_in.command
        is_started = command is not None and self.is_started_by(command)
        program = PROGRAM * is_started
        counts = command is not None and (is_started or self.knows_options)
        argv = read_argv(command.arguments if command and counts else (), where="command")
        settings = (*handed_in.documents.values(), handed_in.arguments, argv)
        marks = sum(mark in source for source in settings for mark in self.marks)
        hints = sum(hint in source for source in settings for hint in self.hints)
        program += PROGRAM * self._is_imported(handed_in)
        texts = [text for name, text in handed_in.scripts.items() if not is_shell(name, text)]
        marks += sum(mark in text for text in texts for mark in self.scripts)
        return program + _MARK * marks + min(hints, self.hint_limit)

    def is_started_by(self, command: Command) -> bool:
        """Return whether its program is one of these patterns."""
        return any(fnmatchcase(command.program, program) for program in self.programs)

    def _is_imported(self, handed_in: HandedIn) -> bool:
        imported = {
            match[1]
            for name, text in handed_in.scripts.items()
            if is_python(name)
            for match in _IMPORT.finditer(text)
        }
        return not self.packages.isdisjoint(imported)
