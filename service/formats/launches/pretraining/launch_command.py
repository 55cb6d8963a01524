"""Command of a pretraining program, typed in or in a script."""

from collections.abc import Set as AbstractSet

from service.formats.launches.sources.argv import Grammar, read_argv
from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.trainers.processes import (
    Processes,
    account_starters,
    count_processes,
)
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.settings import Setting, Settings


def read_program(
    handed_in: HandedIn, programs: AbstractSet[str], grammar: Grammar
) -> tuple[Settings, Settings]:
    """Return a program's arguments and environment, empty without a command.

    A command of options alone, without its program, has them as arguments too.
    """
    command = handed_in.command
    if command is None:
        return Settings(), Settings()
    arguments = command.arguments
    if command.program.startswith("-") and command.program not in programs:
        arguments = (command.program, *arguments)
    environment = [
        Setting(key=name, value=value, where=command.where)
        for name, value in command.environment.items()
    ]
    return read_argv(arguments, grammar, where=command.where), Settings(environment)


def count_ranks(handed_in: HandedIn, draft: Draft) -> Processes:
    """Return how many processes a command starts; account for what starts it."""
    if handed_in.command is None:
        return Processes(is_started=False)
    processes = count_processes(handed_in, None)
    account_starters(handed_in, draft)
    return processes
