"""Open constructs of a shell script, and which parts are read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from service.formats.launches.shell.conditions import decide
from service.formats.launches.shell.expansion import Expander, Variable
from service.formats.launches.shell.lexer import Token
from service.formats.launches.sources.limits import MAX_DEPTH
from service.formats.launches.values.errors import LaunchFormatError

_CASE_ENDS = frozenset({";;", ";&", ";;&"})
_CLOSED_BY = {"fi": "if", "done": "loop", "esac": "case", "}": "group"}
_PASSED = frozenset({"then", "do", "time", "!", "function"})
_MAX_PATTERN = 100


@dataclass(slots=True, kw_only=True)
class Frame:
    """Construct whose present part is read or not.

    ``is_unknown``: nobody could decide its condition; ``subject`` is what a ``case`` compares.
    """

    kind: str
    is_read: bool
    line: int
    is_done: bool = False
    is_unknown: bool = False
    subject: str = ""
    expects_pattern: bool = False


@dataclass(slots=True, kw_only=True)
class Frames:
    """Constructs that are open, the innermost last."""

    expander: Expander
    frames: list[Frame] = field(default_factory=list)

    @property
    def is_read(self) -> bool:
        """Whether the commands that come are read."""
        return all(frame.is_read for frame in self.frames)

    @property
    def expects_pattern(self) -> bool:
        """Whether a pattern of a ``case`` comes."""
        return bool(self.frames) and self.frames[-1].expects_pattern

    @property
    def undecided_line(self) -> int | None:
        """Line of the innermost condition that leaves this part out undecided."""
        lines = [frame.line for frame in self.frames if frame.is_unknown and not frame.is_read]
        return lines[-1] if lines else None

    def open(self, frame: Frame) -> None:
        """Enter a construct."""
        if len(self.frames) >= MAX_DEPTH:
            message = "is nested too deeply"
            raise LaunchFormatError(message, where=f"{self.expander.name}:{frame.line}")
        self.frames.append(frame)

    def read_keyword(self, line: list[Token]) -> list[Token] | None:
        """Return the line behind its keyword, None where it has none."""
        keyword = line[0].plain
        if keyword in _PASSED or line[0].operator in {"(", ")"}:
            return line[1:]
        if len(line) > 2 and (line[1].operator, line[2].operator) == ("(", ")"):  # noqa: PLR2004 - name ( )
            return line[3:]
        reader = _KEYWORDS.get(keyword)
        return None if reader is None else reader(self, line)

    def choose_case(self, line: list[Token]) -> None:
        """Decide whether a pattern of a ``case`` is read."""
        frame = self.frames[-1]
        frame.expects_pattern = False
        patterns = [token.segments[0].text[:_MAX_PATTERN] for token in line if token.segments]
        matches = "$" not in frame.subject and any(
            fnmatchcase(frame.subject[:_MAX_PATTERN], pattern) for pattern in patterns
        )
        frame.is_read = matches and not frame.is_done
        frame.is_done = frame.is_done or matches

    def end_case(self, operator: str) -> None:
        """Expect the next pattern behind the end of a case."""
        if operator in _CASE_ENDS and self.frames and self.frames[-1].kind == "case":
            self.frames[-1].expects_pattern = True

    def open_if(self, line: list[Token]) -> list[Token]:
        """Enter a condition."""
        result = decide(line[1:], self.expander) if self.is_read else False
        self.open(
            Frame(
                kind="if",
                is_read=result is True,
                is_done=result is True,
                is_unknown=result is None,
                line=line[0].line,
            )
        )
        return []

    def choose_elif(self, line: list[Token]) -> list[Token]:
        """Decide another branch."""
        if self._is_open("if"):
            frame = self.frames.pop()
            can_run = self.is_read and not frame.is_done
            result = decide(line[1:], self.expander) if can_run else False
            frame.is_read = result is True
            frame.is_done = frame.is_done or result is True
            frame.is_unknown = result is None
            self.frames.append(frame)
        return []

    def choose_else(self, line: list[Token]) -> list[Token]:
        """Read the last branch where no other was."""
        if self._is_open("if"):
            frame = self.frames[-1]
            frame.is_read, frame.is_done = not frame.is_done, True
        return line[1:]

    def open_loop(self, line: list[Token]) -> list[Token]:
        """Enter a loop: ``for`` is read with its first value alone."""
        values = line[3:] if len(line) > 3 and line[2].plain == "in" else []  # noqa: PLR2004 - for NAME in
        is_for = line[0].plain in {"for", "select"} and bool(values)
        if is_for and self.is_read:
            elements = self.expander.expand(values[0])
            self.expander.variables[line[1].plain] = Variable(elements=tuple(elements[:1]))
        self.open(Frame(kind="loop", is_read=is_for, line=line[0].line))
        return []

    def open_case(self, line: list[Token]) -> list[Token]:
        """Enter a choice by patterns."""
        subject = ""
        if self.is_read and len(line) > 1:
            subject = " ".join(word.text for word in self.expander.expand(line[1]))
        frame = Frame(kind="case", is_read=False, line=line[0].line, subject=subject)
        frame.expects_pattern = True
        self.open(frame)
        return []

    def open_group(self, line: list[Token]) -> list[Token]:
        """Enter a group in braces."""
        self.open(Frame(kind="group", is_read=True, line=line[0].line))
        return line[1:]

    def close(self, line: list[Token]) -> list[Token]:
        """Leave a construct."""
        if self._is_open(_CLOSED_BY[line[0].plain]):
            self.frames.pop()
        return []

    def _is_open(self, kind: str) -> bool:
        return bool(self.frames) and self.frames[-1].kind == kind


_KEYWORDS: Mapping[str, Callable[[Frames, list[Token]], list[Token]]] = {
    "if": Frames.open_if,
    "elif": Frames.choose_elif,
    "else": Frames.choose_else,
    "for": Frames.open_loop,
    "while": Frames.open_loop,
    "until": Frames.open_loop,
    "select": Frames.open_loop,
    "case": Frames.open_case,
    "{": Frames.open_group,
    **dict.fromkeys(_CLOSED_BY, Frames.close),
}
