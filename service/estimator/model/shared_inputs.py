"""What the layers of a stack read beside the hidden state: what an encoder gave, and biases that the first layer made."""

from service.estimator.model.recording import Recording
from service.estimator.tape.cross_shape import Span
from service.estimator.tape.nodes import Value


class Passing:
    """Shared by all layers of one stack while it is recorded.

    ``memory`` is what the encoder gave, whose positions have the length of ``source``; ``across`` are a decoder's queries and
    the encoder's keys, under a mask of padding when ``masked``. ``biases`` are made by the first layer, ``masks`` before it,
    both for attention to a stack's ``own`` positions or ``across``; ``remade`` are biases of a first layer that is recomputed.
    """

    __slots__ = ("across", "biases", "masked", "masks", "memory", "own", "remade", "source")

    def __init__(
        self, own: Span, *, source: Span, across: Span | None = None, memory: Value | None = None, masked: bool = False
    ) -> None:
        """Start without biases; an encoder has nothing across, and a later step of a sequence no memory but the cache."""
        self.own, self.source, self.across, self.memory, self.masked = own, source, across, memory, masked
        self.biases: dict[str, Value] = {}
        self.masks: dict[str, Value] = {}
        self.remade: list[Value] = []

    @property
    def crossing(self) -> Span:
        """The queries of a decoder and the keys of the encoder."""
        assert self.across is not None  # noqa: S101 - only a decoder's layers ask
        return self.across


def passing_of(run: Recording) -> Passing:
    """Return what the stack that is being recorded shares."""
    assert isinstance(run, StackRecording)  # noqa: S101 - the walk over two stacks records with one
    return run.passing


class StackRecording(Recording):
    """A pass over one stack of a model of two: layers are recorded again in backward, so that each has a run of its own."""

    def __init__(self, run: Recording, passing: Passing) -> None:
        """Go on with what ``run`` was told, and with its weights, in one of the stacks."""
        self.__dict__.update(run.__dict__)
        self.extent, self.passing = passing.own, passing
