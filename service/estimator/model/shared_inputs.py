"""Inputs that the layers of a stack share beside the hidden state.

They are the encoder's output, and biases that the first layer made.
"""

from service.estimator.model.recording import Recording
from service.estimator.tape.cross_shape import CrossShape
from service.estimator.tape.nodes import Value


class SharedInputs:
    """Inputs that all layers of one stack share while it is recorded.

    ``memory`` is the encoder's output, whose positions have the length of ``source``; ``across``
    are a decoder's queries and the encoder's keys, under a mask of padding when ``masked``.
    ``biases`` are made by the first layer, ``masks`` before it, both for attention to a stack's
    ``own`` positions or ``across``; ``remade`` are biases of a first layer that is recomputed.
    """

    __slots__ = ("across", "biases", "masked", "masks", "memory", "own", "remade", "source")

    def __init__(
        self,
        shape: CrossShape,
        *,
        source: CrossShape,
        across: CrossShape | None = None,
        memory: Value | None = None,
        masked: bool = False,
    ) -> None:
        """Start without biases.

        An encoder has nothing across, and a later step of a sequence no memory but the cache.
        """
        self.own, self.source, self.across, self.memory, self.masked = (
            shape,
            source,
            across,
            memory,
            masked,
        )
        self.biases: dict[str, Value] = {}
        self.masks: dict[str, Value] = {}
        self.remade: list[Value] = []

    @property
    def crossing(self) -> CrossShape:
        """Queries of a decoder and keys of the encoder."""
        assert self.across is not None  # noqa: S101 - only a decoder's layers ask
        return self.across


def get_shared_inputs(ctx: Recording) -> SharedInputs:
    """Return the shared inputs of the stack that is being recorded."""
    assert isinstance(ctx, StackRecording)  # noqa: S101 - the walk over two stacks records with one
    return ctx.shared_inputs


class StackRecording(Recording):
    """Pass over one stack of an encoder-decoder model.

    Layers are recorded again in backward, so that each has a recording of its own.
    """

    def __init__(self, ctx: Recording, shared_inputs: SharedInputs) -> None:
        """Continue the recording ``ctx``, with its weights, in one stack."""
        self.__dict__.update(ctx.__dict__)
        self.shape, self.shared_inputs = shared_inputs.own, shared_inputs
