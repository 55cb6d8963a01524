"""Commands of a shell script, with the variables that it assigns.

Branches are read where the script's own variables decide them, a loop's body once with the first
value. Nothing is run: what only a run would tell stands as it was written.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from service.formats.launches.shell.conditions import TESTS, decide
from service.formats.launches.shell.expansion import Expander, ShellWord, Variable
from service.formats.launches.shell.frames import Frame, Frames
from service.formats.launches.shell.lexer import REDIRECTIONS, Token, iter_tokens
from service.formats.launches.sources.limits import MAX_WORDS
from service.formats.launches.values.errors import LaunchFormatError

_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<sign>\+?=)")
_DECLARATIONS = frozenset({"export", "local", "declare", "readonly", "typeset"})
_SEPARATORS = frozenset({"\n", ";", "&", "|", ";;", ";&", ";;&"})
_SHELLS = frozenset({"bash", "sh", "zsh", "dash"})
_SUBMITTERS = frozenset({"sbatch", "qsub", "bsub"})
_MAX_NESTING = 8
_DIRECTIVE = "#SBATCH"


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """Commands that a script would run, in its order.

    ``directives`` are the words of its ``#SBATCH`` lines, ``variables`` its exported and plain
    scalars at the end, ``skipped`` the lines of branches that nobody could decide.
    """

    commands: tuple[tuple[ShellWord, ...], ...]
    directives: tuple[str, ...]
    variables: dict[str, str]
    skipped: tuple[int, ...]


@dataclass(slots=True, kw_only=True)
class _Reader:
    """State of reading a script."""

    name: str
    expander: Expander
    frames: Frames
    prefix: tuple[ShellWord, ...] = ()
    depth: int = 0
    commands: list[tuple[ShellWord, ...]] = field(default_factory=list)
    directives: list[str] = field(default_factory=list)
    skipped: list[int] = field(default_factory=list)


def read_script(name: str, text: str) -> Script:
    """Return the commands of a script.

    Raises LaunchFormatError for what is no script, or expands to too much.
    """
    expander = Expander(name=name)
    reader = _Reader(name=name, expander=expander, frames=Frames(expander=expander))
    _read_text(reader, text, first_line=1)
    scalars = {
        key: " ".join(word.text for word in variable.elements)
        for key, variable in reader.expander.variables.items()
        if not variable.is_array
    }
    return Script(
        commands=tuple(reader.commands),
        directives=tuple(reader.directives),
        variables=scalars,
        skipped=tuple(dict.fromkeys(reader.skipped)),
    )


def _read_text(reader: _Reader, text: str, first_line: int) -> None:
    _read_directives(reader, text)
    line: list[Token] = []
    for token in iter_tokens(reader.name, text):
        moved = Token(
            line=token.line + first_line - 1,
            segments=token.segments,
            operator=token.operator,
            is_body=token.is_body,
        )
        in_pattern = reader.frames.expects_pattern
        if in_pattern and token.operator == ")":
            reader.frames.choose_case(line)
            line = []
        elif token.operator in _SEPARATORS and not (in_pattern and token.operator == "|"):
            _read_line(reader, line)
            line = []
            reader.frames.end_case(token.operator)
        else:
            line.append(moved)
    _read_line(reader, line)


def _read_directives(reader: _Reader, text: str) -> None:
    for line in text.splitlines():
        if line.startswith(_DIRECTIVE) and len(reader.directives) < MAX_WORDS:
            content = line.removeprefix(_DIRECTIVE).partition(" #")[0]
            tokens = reader.expander.expand_text(content, 1).split()
            reader.directives += tokens
    variables = reader.expander.variables
    for word, value in _list_slurm_variables(reader.directives):
        variables.setdefault(word, Variable(elements=(ShellWord(text=value, line=1),)))


def _list_slurm_variables(directives: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield variables that Slurm sets by the directives of a script.

    sbatch(1), OUTPUT ENVIRONMENT.
    """
    for number, word in enumerate(directives):
        option, equals, value = word.partition("=")
        value = value if equals else "".join(directives[number + 1 : number + 2])
        if not value.isdecimal():
            continue
        if option in {"--nodes", "-N"}:
            yield from ((name, value) for name in ("SLURM_NNODES", "SLURM_JOB_NUM_NODES"))
        elif option == "--ntasks-per-node":
            yield "SLURM_NTASKS_PER_NODE", value
        elif option == "--gpus-per-node":
            yield "SLURM_GPUS_PER_NODE", value


def _read_line(reader: _Reader, line: list[Token]) -> None:
    """Read one line: keywords first, then what they leave."""
    while line:
        remaining = reader.frames.read_keyword(line)
        if remaining is None:
            _read_chain(reader, line)
            return
        line = remaining


def _read_chain(reader: _Reader, line: list[Token]) -> None:
    """Read commands that ``&&`` and ``||`` join, each as if it succeeded."""
    result: bool | None = True
    sign, command = "&&", list[Token]()
    in_test = False
    for token in [*line, Token(line=line[-1].line, operator="&&")]:
        in_test = (in_test or token.plain == "[[") and token.plain != "]]"
        if token.operator not in {"&&", "||"} or in_test:
            command.append(token)
            continue
        runs = result is (sign == "&&")
        if command and command[0].plain == "{":
            reader.frames.open(Frame(kind="group", is_read=runs, line=command[0].line))
            command = command[1:]
        if command and runs:
            decided = decide(command, reader.expander)
            _read_command(reader, command)
            result = decided if command[0].plain in TESTS else True
        sign, command = token.operator, []


def _read_command(reader: _Reader, tokens: list[Token]) -> None:
    """Read one simple command: assignments, or words."""
    if not reader.frames.is_read:
        _note_skipped(reader, tokens)
        return
    tokens = _drop_redirections(tokens)
    bodies = [token for token in tokens if token.is_body]
    tokens = [token for token in tokens if not token.is_body]
    if tokens and tokens[0].plain in _DECLARATIONS:
        tokens = [token for token in tokens[1:] if not token.plain.startswith("-")]
    while tokens and (match := _match_assignment(tokens[0])) is not None:
        tokens = _assign(reader, match, tokens)
    fields = [
        word for token in tokens if not token.operator for word in reader.expander.expand(token)
    ]
    if fields:
        _add_command(reader, fields, bodies)


def _note_skipped(reader: _Reader, tokens: list[Token]) -> None:
    """Keep the line of an undecided branch that sets something."""
    line = reader.frames.undecided_line
    if line is not None and _match_assignment(tokens[0]) is not None:
        reader.skipped.append(line)


def _drop_redirections(tokens: list[Token]) -> list[Token]:
    return [
        token
        for before, token in zip([None, *tokens], tokens, strict=False)
        if token.operator not in REDIRECTIONS
        and (before is None or before.operator not in REDIRECTIONS)
    ]


def _match_assignment(token: Token) -> re.Match[str] | None:
    if not token.segments or token.segments[0].quote:
        return None
    return _ASSIGNMENT.match(token.segments[0].text)


def _assign(reader: _Reader, match: re.Match[str], tokens: list[Token]) -> list[Token]:
    """Set a variable; return the tokens behind the assignment."""
    token, variables = tokens[0], reader.expander.variables
    first = token.segments[0]
    text = first.text[match.end() :]
    before = variables.get(match["name"]) if match["sign"] == "+=" else None
    earlier = () if before is None else before.elements
    if not text and len(token.segments) == 1 and len(tokens) > 1 and tokens[1].operator == "(":
        end = next((at for at, item in enumerate(tokens) if item.operator == ")"), len(tokens))
        elements = [
            word
            for item in tokens[2:end]
            if not item.operator
            for word in reader.expander.expand(item)
        ]
        variables[match["name"]] = Variable(elements=(*earlier, *elements), is_array=True)
        return tokens[end + 1 :]
    expanded = "".join(
        segment if is_literal else reader.expander.expand_text(segment, token.line)
        for segment, is_literal in (
            (text if segment is first else segment.text, segment.quote == "'")
            for segment in token.segments
        )
    )
    joined = "".join(word.text for word in earlier) + expanded
    reader.expander.charge(len(joined), token.line)
    variables[match["name"]] = Variable(elements=(ShellWord(text=joined, line=token.line),))
    return tokens[1:]


def _add_command(reader: _Reader, fields: list[ShellWord], bodies: list[Token]) -> None:
    """Keep a command, or read a text for a shell."""
    names = [PurePosixPath(word.text).name for word in fields]
    if names[0] in _SUBMITTERS | _SHELLS and bodies:
        for body in bodies:
            segment = body.segments[0]
            text = segment.text
            if segment.quote != "'":
                text = reader.expander.expand_text(text.replace("\\$", "$"), body.line)
            _read_nested(reader, text, body.line, ())
        return
    if names[0] == "eval":
        _read_nested(reader, " ".join(word.text for word in fields[1:]), fields[0].line, ())
        return
    shell = next((at for at, name in enumerate(names) if name in _SHELLS), None)
    if shell is not None:
        option = next((at for at in range(shell + 1, len(fields)) if _runs_text(names[at])), None)
        if option is not None and option + 1 < len(fields):
            _read_nested(reader, fields[option + 1].text, fields[option + 1].line, fields[:shell])
            return
    reader.commands.append((*reader.prefix, *fields))


def _runs_text(word: str) -> bool:
    return word.startswith("-") and not word.startswith("--") and word.endswith("c")


def _read_nested(reader: _Reader, text: str, line: int, prefix: Sequence[ShellWord]) -> None:
    if reader.depth >= _MAX_NESTING:
        message = "shells are nested too deeply"
        raise LaunchFormatError(message, where=f"{reader.name}:{line}")
    nested = _Reader(
        name=reader.name,
        expander=reader.expander,
        frames=Frames(expander=reader.expander),
        prefix=(*reader.prefix, *prefix),
        depth=reader.depth + 1,
        directives=reader.directives,
        commands=reader.commands,
        skipped=reader.skipped,
    )
    _read_text(nested, text, first_line=line)
