"""Commands that a shell script would run, which is never run.

A condition whose words are all literal decides; of any other both sides are read, and what they
assign differently is not known afterwards.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from service.formats.launches.shell.conditions import evaluate_test
from service.formats.launches.shell.inner_shells import find_shell, name_arguments, open_entrypoint
from service.formats.launches.shell.nodes import (
    ArrayWord,
    Body,
    Case,
    Chain,
    Function,
    If,
    Loop,
    Node,
    Simple,
)
from service.formats.launches.shell.syntax import parse_script
from service.formats.launches.shell.tokens import MAX_DEPTH, Word
from service.formats.launches.shell.variables import Value, Variables, is_unknown
from service.formats.launches.values.errors import LaunchFormatError

MAX_COMMANDS = 2_000
_TESTS = frozenset({"[", "[[", "test"})
_RUNS_TEXT = frozenset({"sbatch", "bash", "sh"})
_DECLARATIONS = frozenset({"export", "declare", "local", "readonly", "typeset"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptCommand:
    """Words of a command, the exported variables before it, and its line."""

    tokens: tuple[str, ...]
    line: int
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """Commands of a script, and files that it writes from here-documents."""

    commands: tuple[ScriptCommand, ...]
    files: Mapping[str, str] = field(default_factory=dict)


def read_script(name: str, text: str, variables: Mapping[str, str]) -> Script:
    """Return what a script would run, with these variables from outside.

    Raises LaunchFormatError for what is no shell script, or runs too much.
    """
    run = _Run(name)
    run.variables.values.update(variables)
    run.run_body(parse_script(name, text))
    return Script(commands=tuple(run.commands), files=run.files)


class _Run:
    """Variables, functions and commands so far."""

    def __init__(self, name: str) -> None:
        """Begin with nothing."""
        self.name = name
        self.variables = Variables(name)
        self.functions: dict[str, Body] = {}
        self.commands: list[ScriptCommand] = []
        self.files: dict[str, str] = {}
        self.depth = 0
        self.count = 0
        self.prefix: tuple[str, ...] = ()
        """What starts the shell whose commands these are."""

    def run_body(self, body: Body) -> bool | None:
        """Run statements; return the truth of the last, None if open."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            message = "has too many blocks and calls within each other"
            raise LaunchFormatError(message, where=self.name)
        truth: bool | None = True
        for node in body:
            truth = self._run_node(node)
        self.depth -= 1
        return truth

    def _run_node(self, node: Node) -> bool | None:
        self.count += 1
        if self.count > MAX_COMMANDS:
            message = f"runs more than {MAX_COMMANDS:,} commands"
            raise LaunchFormatError(message, where=self.name)
        if isinstance(node, Simple):
            return self._run_simple(node)
        if isinstance(node, Chain):
            return self._run_chain(node)
        if isinstance(node, If):
            self._run_if(node)
        elif isinstance(node, Loop):
            self._run_loop(node)
        elif isinstance(node, Case):
            self._run_case(node)
        elif isinstance(node, Function):
            self.functions[node.name] = node.body
        else:
            return self.run_body(node)
        return True

    def _run_chain(self, chain: Chain) -> bool | None:
        truth = self._run_node(chain.first)
        for kind, node in chain.following:
            if kind == "|" or truth is (kind == "&&"):
                truth = self._run_node(node)
            elif truth is None:
                self._run_maybe([(node,), ()])
        return truth

    def _run_if(self, node: If) -> None:
        open_bodies: list[Body] = []
        for condition, body in node.branches:
            truth = self.run_body(condition)
            if truth is not False:
                open_bodies.append(body)
            if truth is True:
                break
        else:
            open_bodies.append(node.otherwise)
        self._run_maybe(open_bodies)

    def _run_case(self, node: Case) -> None:
        subject = self.variables.join(node.subject)
        bodies = [body for _, body in node.branches]
        if not is_unknown(subject):
            matching = (
                body
                for patterns, body in node.branches
                if any(fnmatchcase(subject, self.variables.join(entry)) for entry in patterns)
            )
            bodies = [next(matching, ())]
        self._run_maybe(bodies)

    def _run_loop(self, node: Loop) -> None:
        values = [value for word in node.tokens for value in self.variables.expand(word)]
        if node.name and values:
            self.variables.assign(node.name, values[0])
        if len(values) > 1 or (node.name and not values):
            self.variables.forget(node.name)
        self._run_maybe([node.body] if len(values) == 1 else [node.body, ()])

    def _run_maybe(self, bodies: list[Body]) -> None:
        """Run each from the same state; keep what all agree on."""
        if len(bodies) == 1:
            self.run_body(bodies[0])
            return
        before = dict(self.variables.values)
        ends: list[dict[str, Value]] = []
        for body in bodies:
            self.variables.values = dict(before)
            self.run_body(body)
            ends.append(self.variables.values)
        names = {name for end in ends for name in end}
        self.variables.values = {}
        for name in names:
            values = {end.get(name) for end in ends}
            value = values.pop()
            if values or value is None:
                self.variables.forget(name)
            else:
                self.variables.values[name] = value

    def _run_simple(self, node: Simple) -> bool | None:
        if node.document is not None and self._write(node, self.variables.join(node.document)):
            return True
        index = 0
        former = dict(self.variables.values)
        assigned: dict[str, str] = {}
        while index < len(node.tokens) and self._assign(node.tokens[index], assigned):
            index += 1
        remaining = node.tokens[index:]
        if not remaining:
            return True
        if assigned:
            self.variables.values = former
        return self._run_words(list(self._expand(remaining)), remaining, node.line, assigned)

    def _write(self, node: Simple, text: str) -> bool:
        """Keep a here-document in a file or variable; return whether it ran."""
        literals = [token.literal for token in node.tokens if isinstance(token, Word)]
        if node.target is not None:
            self.files[self.variables.join(node.target)] = text
        elif literals[:1] == ["read"]:
            self.variables.assign(literals[-1], text)
        elif literals and literals[0] in _RUNS_TEXT:
            former = self.prefix
            if literals[0] == "sbatch" and literals[1:]:
                self.prefix += tuple(self._expand(node.tokens))
            self._run_text(text, node.line)
            self.prefix = former
            return True
        return False

    def _expand(self, tokens: tuple[Word | ArrayWord, ...]) -> Iterator[str]:
        for word in tokens:
            if isinstance(word, Word):
                yield from self.variables.expand(word)

    def _assign(self, word: Word | ArrayWord, assigned: dict[str, str]) -> bool:
        """Assign where a word is an assignment; return whether it is."""
        if isinstance(word, ArrayWord):
            values = tuple(self._expand(word.tokens))
            self.variables.assign(word.name, values, appends=word.appends)
            return True
        name, equals, _ = word.pieces[0].text.partition("=") if word.pieces else ("", "", "")
        appends = name.endswith("+")
        name = name.removesuffix("+")
        if not equals or not name.isidentifier() or word.pieces[0].is_quoted:
            return False
        text = self.variables.join(word)
        value = text.partition("=")[2]
        self.variables.assign(name, value, appends=appends)
        assigned[name] = value
        return True

    def _run_words(
        self,
        tokens: list[str],
        sources: tuple[Word | ArrayWord, ...],
        line: int,
        assigned: Mapping[str, str],
    ) -> bool | None:
        if not tokens:
            return True
        program = tokens[0]
        if program in _TESTS:
            return evaluate_test(tokens)
        if program in _DECLARATIONS:
            self._declare(sources[1:], exports=program == "export")
        elif program == "unset":
            for name in tokens[1:]:
                self.variables.values.pop(name, None)
        elif program == "shift":
            self.variables.shift(tokens[1:])
        elif program in self.functions:
            self._call(program, tokens[1:])
        elif program == "eval":
            self._run_text(" ".join(tokens[1:]), line)
        else:
            self._keep(tokens, line, assigned)
        return True

    def _keep(self, tokens: list[str], line: int, assigned: Mapping[str, str]) -> None:
        tokens = list(open_entrypoint(tokens))
        inner = find_shell(tokens)
        if inner is not None:
            former = self.prefix
            self.prefix += tuple(tokens[: inner[0]])
            arguments = self._swap_arguments(name_arguments(tokens[inner[1] + 1 :]))
            self._run_text(tokens[inner[1]], line)
            self._swap_arguments(arguments)
            self.prefix = former
            return
        values = self.variables.values
        exported = {
            name: value
            for name in self.variables.exported
            if isinstance(value := values.get(name), str) and not is_unknown(value)
        }
        command = ScriptCommand(
            tokens=(*self.prefix, *tokens), line=line, environment={**exported, **assigned}
        )
        self.commands.append(command)

    def _declare(self, tokens: tuple[Word | ArrayWord, ...], *, exports: bool) -> None:
        for word in tokens:
            assigned: dict[str, str] = {}
            is_assignment = self._assign(word, assigned)
            if exports and isinstance(word, Word):
                self.variables.exported |= set(assigned) if is_assignment else {word.literal}

    def _call(self, name: str, arguments: list[str]) -> None:
        former = self._swap_arguments({str(n): word for n, word in enumerate(arguments, 1)})
        self.run_body(self.functions[name])
        self._swap_arguments(former)

    def _swap_arguments(self, arguments: Mapping[str, Value]) -> Mapping[str, Value]:
        """Set the numbered variables to these alone; return what they were."""
        values = self.variables.values
        former = {name: values.pop(name) for name in list(values) if name.isdecimal()}
        values |= arguments
        return former

    def _run_text(self, text: str, line: int) -> None:
        start = len(self.commands)
        self.run_body(parse_script(f"{self.name}:{line}", text))
        self.commands[start:] = [replace(entry, line=line) for entry in self.commands[start:]]
