"""Walk of a question through the estimator, read off its source.

Every function that gets the question itself is walked once: ``estimate``, then, in the order of the
source, the functions that it hands a ``workload`` or a ``question`` to, and what those hand on,
under whatever name. What is made of it by ``replace``, or by a function that returns a workload or
a question, is the question still; a part that is read off (``workload.lora``) is not. Each backend
of the registry answers.

A *room* is a folder. The walk *stays* in a room for as long as one function after the other is of
that folder; it *returns* when it comes to a room that it had left. A question that is resolved
where it comes in is handed to few rooms, and to each of them once.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from tests.architecture.modules import ROOT, parse_file

WORDS = frozenset({"workload", "question"})
TYPES = frozenset(
    {"Workload", "TrainWorkload", "ServeWorkload", "Question", "TrainQuestion", "ServeQuestion"}
)


@dataclass(frozen=True, slots=True)
class Place:
    """A function by its module and its name, with the name of its class before it."""

    module: str
    name: str

    @property
    def room(self) -> str:
        """The folder of its module."""
        return self.module.rpartition(".")[0]


@dataclass(frozen=True, kw_only=True)
class Source:
    """Functions of a tree, and what the modules of it import."""

    package: str

    @cached_property
    def modules(self) -> Mapping[str, ast.Module]:
        """The modules below the package, by name."""
        files = (ROOT / self.package.replace(".", "/")).rglob("*.py")
        return {
            ".".join(file.relative_to(ROOT).with_suffix("").parts): parse_file(file)
            for file in files
        }

    @cached_property
    def functions(self) -> Mapping[Place, ast.FunctionDef]:
        """Functions and methods, by place."""
        return {
            Place(module, name): node
            for module, tree in self.modules.items()
            for name, node in _iter_functions(tree)
        }

    @cached_property
    def imports(self) -> Mapping[str, Mapping[str, Place]]:
        """What each module imports, by the name that it has there."""
        return {
            module: {
                alias.asname or alias.name: Place(node.module, alias.name)
                for node in ast.walk(tree)
                if isinstance(node, ast.ImportFrom) and node.module is not None
                for alias in node.names
            }
            for module, tree in self.modules.items()
        }

    def find_called(self, caller: Place, function: ast.expr) -> Place | None:
        """Return the place of what a call names, None where it is not of the tree."""
        match function:
            case ast.Name(id=name):
                place = self.imports[caller.module].get(name, Place(caller.module, name))
                made = Place(place.module, f"{place.name}.__init__")
                return next((each for each in (place, made) if each in self.functions), None)
            case ast.Attribute(attr=name):
                own = Place(caller.module, f"{caller.name.partition('.')[0]}.{name}")
                named = [place for place in self.functions if place.name.endswith(f".{name}")]
                # A method of an object is known by its name where only one class has it.
                return own if own in named else named[0] if len(named) == 1 else None
            case _:
                return None


@dataclass(slots=True)
class Walk:
    """The walk of a question: the places that get it, in order."""

    source: Source
    answers: tuple[Place, ...]
    """What a call of ``answer_question`` is followed to."""
    places: list[Place] = field(default_factory=list)

    def enter(self, place: Place, carriers: frozenset[str]) -> None:
        """Walk a function whose parameters ``carriers`` are the question."""
        if place in self.places:
            return
        self.places.append(place)
        names = set(carriers)
        for node in _iter_in_order(self.source.functions[place]):
            if isinstance(node, ast.Assign):
                names |= set(self._iter_bound(place, node, names))
            elif isinstance(node, ast.Call):
                self._follow(place, node, names)

    def _follow(self, caller: Place, call: ast.Call, names: set[str]) -> None:
        function, arguments = call.func, call.args
        if isinstance(function, ast.Name) and function.id == "partial" and arguments:
            function, arguments = arguments[0], arguments[1:]
        if isinstance(function, ast.Name) and function.id == "answer_question":
            for answer in self.answers:
                self.enter(answer, WORDS)
            return
        for each in _iter_choices(function):
            called = self.source.find_called(caller, each)
            if called is None:
                continue
            parameters = _list_parameters(self.source.functions[called])
            values = [
                *zip(parameters, arguments, strict=False),
                *((each.arg or "", each.value) for each in call.keywords),
            ]
            carriers = [name for name, value in values if self._is_question(caller, value, names)]
            if carriers:
                self.enter(called, frozenset(carriers))

    def _is_question(self, place: Place, node: ast.expr, names: set[str]) -> bool:
        match node:
            case ast.Name(id=name):
                return name in names
            case ast.Attribute(attr=name):
                return name in WORDS
            case ast.Starred(value=value):
                return self._is_question(place, value, names)
            case ast.Call(func=ast.Name(id="replace"), args=[first, *_]):
                return self._is_question(place, first, names)
            case ast.Call(func=function):
                return self._list_returned(place, function)[:1] == [True]
            case _:
                return False

    def _list_returned(self, place: Place, function: ast.expr) -> list[bool]:
        """Return which of the values that a call returns are the question."""
        called = self.source.find_called(place, function)
        match called and self.source.functions[called].returns:
            case ast.Name(id=name):
                return [name in TYPES]
            case ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Tuple(elts=types)):
                return [isinstance(each, ast.Name) and each.id in TYPES for each in types]
            case _:
                return []

    def _iter_bound(self, place: Place, node: ast.Assign, names: set[str]) -> Iterator[str]:
        """Yield the names that an assignment gives to the question."""
        for target in node.targets:
            targets, given = [target], [self._is_question(place, node.value, names)]
            match target, node.value:
                case ast.Tuple(elts=targets), ast.Tuple(elts=values):
                    given = [self._is_question(place, value, names) for value in values]
                case ast.Tuple(elts=targets), ast.Call(func=function):
                    given = self._list_returned(place, function)
            for bound, is_question in zip(targets, given, strict=False):
                if is_question and isinstance(bound, ast.Name):
                    yield bound.id

    def list_stays(self) -> list[str]:
        """Return the rooms in which the walk stays, in order."""
        rooms = [place.room for place in self.places]
        return [room for index, room in enumerate(rooms) if not index or rooms[index - 1] != room]


def _iter_functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for member in node.body:
                if isinstance(member, ast.FunctionDef):
                    yield f"{node.name}.{member.name}", member


def _iter_in_order(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what is below a node, what is evaluated first before what rests on it."""
    for child in ast.iter_child_nodes(node):
        yield from _iter_in_order(child)
        yield child


def _iter_choices(function: ast.expr) -> Iterator[ast.expr]:
    """Yield what a call may call: both sides of a conditional expression."""
    if isinstance(function, ast.IfExp):
        yield from _iter_choices(function.body)
        yield from _iter_choices(function.orelse)
    else:
        yield function


def _list_parameters(function: ast.FunctionDef) -> list[str]:
    """Return the names of a function's positional parameters, as its caller sees them."""
    parameters = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    return parameters[1:] if parameters[:1] in (["self"], ["cls"]) else parameters
