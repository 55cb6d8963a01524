"""Passes of one model at several extents, each listened to once."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from transformers import PreTrainedModel

from service.jobs.contract import FailureKind
from service.probing.refusal import Refusal
from worker.probes.architecture.listening.listen import Extent, Variant, listen_twice
from worker.probes.architecture.listening.raw_pass import RawPass
from worker.probes.architecture.lowering import Passes
from worker.probes.architecture.steps import (
    BoundaryStep,
    CacheStep,
    LinearStep,
    OperationStep,
    Step,
    make_steps,
)


class DoesNotRunError(Refusal):
    """A model whose own code fails in some number formats."""


def describe_failure(error: Exception) -> str:
    """Return why transformers' code does not run, in one line."""
    text = " ".join(str(error).split())
    return f"transformers' code does not run on this config: {type(error).__name__}: {text[:400]}"


class OtherOperationsError(Refusal):
    """Passes of one model that are not the same operations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hearing:
    """A model of fake tensors, and its passes so far."""

    fake: PreTrainedModel
    variant: Variant
    embedding: str
    steps_of_length: tuple[int, ...] = ()
    heard: dict[Extent, tuple[RawPass, list[Step]]] = field(default_factory=dict)

    def listen(self, extents: tuple[Extent, ...]) -> Passes:
        """Return the passes at ``extents``.

        Raises Refusal where they are not the same operations.
        """
        parts = [self._hear(extent) for extent in extents]
        first = [_sign(step) for step in parts[0][1]]
        for extent, (_, steps) in zip(extents, parts, strict=True):
            signatures = [_sign(step) for step in steps]
            if signatures != first:
                raise self._refuse(extents[0], extent, first, signatures)
        return Passes(
            passes=tuple(names for names, _ in parts),
            steps=tuple(steps for _, steps in parts),
            embedding=self.embedding,
            extents=extents,
            steps_of_length=self.steps_of_length,
        )

    def sign(self, extent: Extent) -> object:
        """Return what the operations at an extent are, without their sizes."""
        return [_sign(step) for step in self._hear(extent)[1]]

    def _hear(self, extent: Extent) -> tuple[RawPass, list[Step]]:
        if extent not in self.heard:
            try:
                both = listen_twice(self.fake, self.variant, extent)
            except (Refusal, MemoryError):
                raise
            except Exception as error:
                raise DoesNotRunError(FailureKind.UNSUPPORTED, describe_failure(error)) from error
            self.heard[extent] = both.names, make_steps(both.names, both.graph)
        return self.heard[extent]

    def _refuse(
        self, one: Extent, other: Extent, first: Sequence[object], second: Sequence[object]
    ) -> OtherOperationsError:
        pairs = zip_longest(first, second)
        place, (left, right) = next((i, p) for i, p in enumerate(pairs) if p[0] != p[1])
        steps = self.heard[one][1][:place]
        modules = [step.module for step in steps if isinstance(step, BoundaryStep)]
        message = (
            f"this model runs other operations on {other.batch} sequences of {other.length} tokens "
            f"than on {one.batch} of {one.length}: near {modules[-1] if modules else 'the start'} "
            f"{_name(right)} in place of {_name(left)}"
        )
        return OtherOperationsError(FailureKind.UNSUPPORTED, message)


def _name(signature: object) -> str:
    return str(signature[0]) if isinstance(signature, tuple) else "a release"


def _sign(step: Step) -> object:
    if isinstance(step, OperationStep):
        nodes = [
            (node.name, [event[:2] for event in node.events], node.saved_before, node.saved_after)
            for node in step.nodes
        ]
        return (step.operator, step.inputs, step.outputs, step.allocated, len(step.scratch), nodes)
    if isinstance(step, CacheStep):
        return ("cache update", step.parts, step.joined, step.window)
    if isinstance(step, LinearStep):
        return (step.layer, step.x, step.output)
    if isinstance(step, BoundaryStep):
        return (step.module, step.entered)
    return step.storage
