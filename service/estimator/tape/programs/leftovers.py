"""Storages of a layer's program that outlive it."""

from service.estimator.tape.programs.program import Operation, Program, Release, flatten
from service.estimator.tape.programs.stepped_sizes import AnySize


def find_left(program: Program) -> tuple[tuple[int, AnySize], ...]:
    """Return the storages that a program neither releases nor hands on.

    A layer that returns its attention weights leaves them to the loop over layers, whose name for
    them ends when the next layer has returned.
    """
    left: dict[int, AnySize] = {}
    for instruction in flatten(program.instructions):
        if isinstance(instruction, Operation):
            left |= {part.storage: part.size for part in instruction.allocated}
        elif isinstance(instruction, Release):
            left.pop(instruction.storage, None)
    given = {program.values[number].storage for number in (*range(program.inputs), program.output)}
    return tuple((storage, size) for storage, size in left.items() if storage not in given)
