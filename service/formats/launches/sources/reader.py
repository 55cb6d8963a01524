"""Readers of launches: what each is told by, and what it reads."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from service.formats.launches.sources.argv import read_argv
from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.launch import Launcher

_PROGRAM, _SCRIPT, _MARK = 1000, 500, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Reader of one launcher's settings.

    ``versions`` are the packages whose keys and defaults it knows. ``programs`` are what a command
    starts (a script's name, or a module); ``marks`` are keys of documents or arguments that tell
    this launcher from the others, by their dotted paths, and ``hints`` keys that others have too;
    ``scripts`` are texts that tell it in a shell's or Python's script, or in TOML.
    """

    launcher: Launcher
    versions: Mapping[str, str]
    read: Callable[[HandedIn, Draft], None]
    programs: frozenset[str] = field(default_factory=frozenset)
    marks: frozenset[str] = field(default_factory=frozenset)
    hints: frozenset[str] = field(default_factory=frozenset)
    scripts: frozenset[str] = field(default_factory=frozenset)

    def count_marks(self, handed_in: HandedIn) -> int:
        """Return how much tells for this launcher; 0 for nothing."""
        command = handed_in.command
        program = 0 if command is None else _PROGRAM * (command.program in self.programs)
        texts = () if program else handed_in.scripts.values()
        program += _SCRIPT * any(text in script for script in texts for text in self.scripts)
        tokens = () if command is None else command.arguments
        argv = read_argv(tokens, where="command")
        settings = (*handed_in.documents.values(), handed_in.arguments, argv)
        marks = sum(mark in source for source in settings for mark in self.marks)
        hints = sum(hint in source for source in settings for hint in self.hints)
        return program + _MARK * marks + min(hints, _MARK - 1)
