"""All that the causes of a failure are judged by."""

from dataclasses import dataclass

from service.estimator.values.units import format_bytes
from service.formats.failures.failure import Failure, FailureLog, FailureQuantity, Span, find_span
from service.formats.failures.places import Place
from service.usecases.postmortem.balance import Balance


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that causes are judged by."""

    failure: Failure
    log: FailureLog
    place: Place | None
    balance: Balance
    engine: str | None

    def find(self, quantity: FailureQuantity) -> Span | None:
        """Return a number of the failure, else of its log."""
        span = self.failure.get(quantity)
        return span if span is not None else find_span(self.log.context, quantity)


def show_span(span: Span | None) -> str:
    """Return the middle of a span in words."""
    return "an unknown amount" if span is None else format_bytes(span.value)
