"""Every kind of problem that the code knows, and a request that is answered with it."""

from collections.abc import Iterator
from dataclasses import dataclass

from service.base import count_errors, hub_errors  # noqa: F401 - its kinds are known by being there
from service.base.command_errors import CommandError
from service.base.errors import ServiceError
from service.base.server_refusals import ServerRefusalError
from service.base.startup_errors import StartupError
from service.contract.to_answer.problems import ESTIMATOR_TYPES, UNPROCESSABLE


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Kind:
    """One kind of problem."""

    status: int
    type: str
    title: str


def known() -> list[Kind]:
    """Return every kind that can be sent, by status."""
    ours = {
        Kind(type=error.type, title=error.title, status=error.status)
        for error in _below(ServiceError)
    }
    estimators = {
        Kind(type=slug, title=title, status=UNPROCESSABLE)
        for slug, title in ESTIMATOR_TYPES.values()
    }
    # Answers of handlers that no class stands for.
    others = {
        Kind(type="method-not-allowed", title="Method not allowed", status=405),
        Kind(type="internal-error", title="Internal error", status=500),
    }
    return sorted(ours | estimators | others)


def _below(kind: type[ServiceError]) -> Iterator[type[ServiceError]]:
    """Yield the classes that are sent: not the base, not what keeps a process from starting, not
    what a server sent to this program, and not what commands alone can meet.
    """
    for error in kind.__subclasses__():
        if not issubclass(error, StartupError | ServerRefusalError | CommandError):
            yield error
            yield from _below(error)
