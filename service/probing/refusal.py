"""The exception of a probe that cannot run."""

from service.jobs.contract import FailureKind


class Refusal(Exception):  # noqa: N818 - an answer of the probe, told to the user word for word
    """A request that can never be measured here.

    The message says what would be right.
    """

    def __init__(self, kind: FailureKind, message: str) -> None:
        """Store the kind of failure and the message."""
        super().__init__(message)
        self.kind = kind
        self.message = message

    def __reduce__(self) -> tuple[type["Refusal"], tuple[FailureKind, str]]:
        """Return how another process makes it again."""
        return (type(self), (self.kind, self.message))
