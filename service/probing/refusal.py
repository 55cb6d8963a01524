"""The one way in which a probe says no."""

from service.jobs.contract import FailureKind


class Refusal(Exception):  # noqa: N818 - an answer of the probe, told to the user word for word
    """This request will never be measured here; the message says what would be right."""

    def __init__(self, kind: FailureKind, message: str) -> None:
        """Keep the kind and the words."""
        super().__init__(message)
        self.kind = kind
        self.message = message
