"""Pickle reader that runs no code.

It is a machine that knows numbers, texts and containers, and no other opcode.

Opcodes of protocols 2 to 5 (cpython Lib/pickletools.py). One that would load or call anything is
refused by its name, before anything of it is looked at; so is an argument longer than the file.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any

from service.formats.measured.reading import MeasuredFormatError

PROTOCOLS = range(2, 6)
MAX_MEMO = 1 << 24
_MARK = object()
_KEYS = frozenset({str, int, float, bytes, bool, type(None)})
_BINGET, _MARK_OPCODE, _STOP = b"h(."
_REFUSED = {
    ord("c"): "GLOBAL",
    0x93: "STACK_GLOBAL",
    ord("R"): "REDUCE",
    ord("b"): "BUILD",
    ord("o"): "OBJ",
    ord("i"): "INST",
    0x81: "NEWOBJ",
    0x92: "NEWOBJ_EX",
    ord("P"): "PERSID",
    ord("Q"): "BINPERSID",
    0x82: "EXT1",
    0x83: "EXT2",
    0x84: "EXT4",
    0x97: "NEXT_BUFFER",
    0x98: "READONLY_BUFFER",
}


def load_containers(data: bytes) -> object:
    """Return the numbers, texts and containers of a pickle.

    Containers are lists, tuples and dicts; every other object is refused.
    """
    machine = _Machine(data)
    try:
        return machine.run()
    except MeasuredFormatError:
        raise
    except (IndexError, struct.error, TypeError, ValueError, KeyError, UnicodeDecodeError) as error:
        raise _make_refusal(
            machine.position, f"is no pickle of protocol 2 to 5 ({type(error).__name__})"
        ) from None


class _Machine:
    """Pickle's stack machine without opcodes that run code."""

    def __init__(self, data: bytes) -> None:
        self.position = 0
        self._data = data
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def run(self) -> object:
        actions, data, stack, memo = _ACTIONS, self._data, self._stack, self._memo
        while True:
            opcode = data[self.position]
            self.position += 1
            # A snapshot says the same few names millions of times: they are looked up here, and not
            # three calls further down.
            if opcode == _BINGET:
                stack.append(memo[data[self.position]])
                self.position += 1
            elif opcode == _MARK_OPCODE:
                stack.append(_MARK)
            elif (action := actions.get(opcode)) is not None:
                action(self)
            elif opcode == _STOP:
                return self.pop()
            else:
                raise _make_refusal(self.position - 1, _explain_refusal(opcode))

    def take(self, count: int) -> bytes:
        end = self.position + count
        chunk = self._data[self.position : end]
        if len(chunk) != count:
            raise _make_refusal(
                self.position, f"wants {count:,} bytes, and {len(chunk):,} are left: cut off?"
            )
        self.position = end
        return chunk

    def read_number(self, count: int, signed: bool = False) -> int:  # noqa: FBT001, FBT002 - called for every number of a file
        return int.from_bytes(self.take(count), "little", signed=signed)

    def push(self, value: object) -> None:
        self._stack.append(value)

    def pop(self) -> Any:  # noqa: ANN401 - whatever a pickle holds
        value = self._stack.pop()
        if value is _MARK:
            message = "a mark is no value"
            raise ValueError(message)
        return value

    def discard(self) -> None:
        self._stack.pop()

    def duplicate(self) -> None:
        self._stack.append(self._top())

    def pop_marked(self) -> list[Any]:
        at = len(self._stack) - 1
        while self._stack[at] is not _MARK:
            at -= 1
            if at < 0:
                message = "no mark"
                raise ValueError(message)
        values = self._stack[at + 1 :]
        del self._stack[at:]
        return values

    def append(self, values: list[Any]) -> None:
        self._top_of(list).extend(values)

    def set_items(self, values: list[Any]) -> None:
        if len(values) % 2:
            message = "a key without a value"
            raise ValueError(message)
        # A tuple as a key would be hashed, and one nested a million times deep would end the
        # process.
        if not _KEYS.issuperset(map(type, values[::2])):
            message = "a key that is neither text nor number"
            raise TypeError(message)
        self._top_of(dict).update(zip(values[::2], values[1::2], strict=True))

    def store_memo(self, index: int) -> None:
        if index >= MAX_MEMO:
            raise _make_refusal(
                self.position, f"keeps value {index:,}; at most {MAX_MEMO:,} are kept"
            )
        self._memo[index] = self._top()

    def memoize(self) -> None:
        self.store_memo(len(self._memo))

    def recall(self, index: int) -> None:
        self._stack.append(self._memo[index])

    def build_tuple(self, count: int) -> None:
        values = [self.pop() for _ in range(count)]
        self.push(tuple(reversed(values)))

    def check_protocol(self) -> None:
        version = self.read_number(1)
        if version not in PROTOCOLS:
            raise _make_refusal(
                self.position - 1,
                f"protocol {version} is not read; expected 2 to 5, as torch writes them",
            )

    def _top(self) -> Any:  # noqa: ANN401 - whatever a pickle holds
        if self._stack[-1] is _MARK:
            message = "a mark is no value"
            raise ValueError(message)
        return self._stack[-1]

    def _top_of(self, kind: type) -> Any:  # noqa: ANN401 - a list or a dict, by ``kind``
        top = self._top()
        if type(top) is not kind:
            message = f"a {type(top).__name__} where a {kind.__name__} belongs"
            raise TypeError(message)
        return top


def _read_text(machine: _Machine, count: int) -> str:
    return machine.take(count).decode("utf-8", "surrogatepass")


def _pop_pair(machine: _Machine) -> list[Any]:
    value, key = machine.pop(), machine.pop()
    return [key, value]


def _skip_frame(machine: _Machine) -> None:
    machine.take(8)


def _drop(_values: list[Any]) -> None:
    """Discard the marked values."""


def _build_dict(machine: _Machine, values: list[Any]) -> None:
    machine.push({})
    machine.set_items(values)


_ACTIONS: Mapping[int, Callable[[_Machine], None]] = {
    0x80: _Machine.check_protocol,
    0x95: _skip_frame,
    ord("0"): _Machine.discard,
    ord("2"): _Machine.duplicate,
    ord("1"): lambda machine: _drop(machine.pop_marked()),
    ord("N"): lambda machine: machine.push(None),
    0x88: lambda machine: machine.push(True),  # noqa: FBT003 - the opcode's value
    0x89: lambda machine: machine.push(False),  # noqa: FBT003 - the opcode's value
    ord("J"): lambda machine: machine.push(machine.read_number(4, signed=True)),
    ord("K"): lambda machine: machine.push(machine.read_number(1)),
    ord("M"): lambda machine: machine.push(machine.read_number(2)),
    0x8A: lambda machine: machine.push(machine.read_number(machine.read_number(1), signed=True)),
    ord("G"): lambda machine: machine.push(struct.unpack(">d", machine.take(8))[0]),
    0x8C: lambda machine: machine.push(_read_text(machine, machine.read_number(1))),
    ord("X"): lambda machine: machine.push(_read_text(machine, machine.read_number(4))),
    0x8D: lambda machine: machine.push(_read_text(machine, machine.read_number(8))),
    ord("C"): lambda machine: machine.push(machine.take(machine.read_number(1))),
    ord("B"): lambda machine: machine.push(machine.take(machine.read_number(4))),
    ord("]"): lambda machine: machine.push([]),
    ord("}"): lambda machine: machine.push({}),
    ord(")"): lambda machine: machine.push(()),
    0x85: lambda machine: machine.build_tuple(1),
    0x86: lambda machine: machine.build_tuple(2),
    0x87: lambda machine: machine.build_tuple(3),
    ord("t"): lambda machine: machine.push(tuple(machine.pop_marked())),
    ord("l"): lambda machine: machine.push(machine.pop_marked()),
    ord("d"): lambda machine: _build_dict(machine, machine.pop_marked()),
    ord("a"): lambda machine: machine.append([machine.pop()]),
    ord("e"): lambda machine: machine.append(machine.pop_marked()),
    ord("s"): lambda machine: machine.set_items(_pop_pair(machine)),
    ord("u"): lambda machine: machine.set_items(machine.pop_marked()),
    0x94: _Machine.memoize,
    ord("q"): lambda machine: machine.store_memo(machine.read_number(1)),
    ord("r"): lambda machine: machine.store_memo(machine.read_number(4)),
    ord("j"): lambda machine: machine.recall(machine.read_number(4)),
}


def _explain_refusal(opcode: int) -> str:
    name = _REFUSED.get(opcode)
    if name is None:
        return (
            f"opcode 0x{opcode:02x} has no place in a memory snapshot; expected numbers, texts and "
            "containers"
        )
    return (
        f"{name} would load or call code; a memory snapshot holds numbers, texts and containers "
        "only"
    )


def _make_refusal(position: int, reason: str) -> MeasuredFormatError:
    message = f"byte {position}: {reason}"
    return MeasuredFormatError(message)
