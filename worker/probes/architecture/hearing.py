"""Passes of one model at several extents, each listened to once."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
)
from transformers import PreTrainedModel

from service.jobs.contract import FailureKind
from service.probing.refusal import Refusal
from worker.probes.architecture.listening.listen import Extent, Variant, listen_twice
from worker.probes.architecture.loops import Heard, find_loops, fold
from worker.probes.architecture.lowering import Passes
from worker.probes.architecture.steps import (
    BoundaryStep,
    CacheStep,
    LinearStep,
    LoopStep,
    OperationStep,
    Step,
    make_steps,
)


class DoesNotRunError(Refusal):
    """A model whose own code fails in some number formats."""


def describe_failure(error: Exception) -> str:
    """Return why transformers' code does not run, in one line."""
    if isinstance(error, DataDependentOutputException | DynamicOutputShapeException):
        return (
            f"this model's code reads values of its input ({error.func}), and tensors without data "
            "have none"
        )
    text = " ".join(str(error).split())
    return f"transformers' code does not run on this config: {type(error).__name__}: {text[:400]}"


class OtherOperationsError(Refusal):
    """Passes of one model that are not the same operations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hearing:
    """A model of fake tensors, and its passes so far."""

    fake: PreTrainedModel
    variant: Variant
    embeddings: frozenset[str]
    steps_of_length: tuple[int, ...] = ()
    heard: dict[Extent, Heard] = field(default_factory=dict)

    def listen(self, extents: tuple[Extent, ...]) -> Passes:
        """Return the passes at ``extents``.

        Raises Refusal where they are not the same operations.
        """
        parts = [self._hear(extent) for extent in extents]
        parts = _fold_loops(parts) or parts
        first = [_sign(step) for step in parts[0].steps]
        for extent, part in zip(extents, parts, strict=True):
            signatures = [_sign(step) for step in part.steps]
            if signatures != first:
                raise self._refuse(extents[0], extent, first, signatures)
        return Passes(
            passes=tuple(part.raw for part in parts),
            steps=tuple(part.steps for part in parts),
            embeddings=self.embeddings,
            extents=extents,
            steps_of_length=self.steps_of_length,
        )

    def sign(self, extent: Extent) -> object:
        """Return what the operations at an extent are, without their sizes."""
        return [_sign(step) for step in self._hear(extent).steps]

    def count_turns(self, short: Extent, long: Extent) -> int:
        """Return the turns that a longer extent adds to loops.

        There are none where the passes differ by anything else.
        """
        parts = _fold_loops([self._hear(short), self._hear(long)])
        turns = [s.turns for s in parts[1].steps if isinstance(s, LoopStep)] if parts else []
        return max(turns, default=1) - 1

    def _hear(self, extent: Extent) -> Heard:
        if extent not in self.heard:
            try:
                both = listen_twice(self.fake, self.variant, extent)
            except (Refusal, MemoryError):
                raise
            except Exception as error:
                raise DoesNotRunError(FailureKind.UNSUPPORTED, describe_failure(error)) from error
            steps = make_steps(both.names, both.graph)
            self.heard[extent] = Heard(raw=both.names, steps=steps)
        return self.heard[extent]

    def _refuse(
        self, one: Extent, other: Extent, first: Sequence[object], second: Sequence[object]
    ) -> OtherOperationsError:
        pairs = zip_longest(first, second)
        place, (left, right) = next((i, p) for i, p in enumerate(pairs) if p[0] != p[1])
        steps = self.heard[one].steps[:place]
        modules = [step.module for step in steps if isinstance(step, BoundaryStep)]
        message = (
            f"this model runs other operations on {other.batch} sequences of {other.length} tokens "
            f"than on {one.batch} of {one.length}: near {modules[-1] if modules else 'the start'} "
            f"{_name(right)} in place of {_name(left)}"
        )
        return OtherOperationsError(FailureKind.UNSUPPORTED, message)


def _fold_loops(parts: Sequence[Heard]) -> list[Heard] | None:
    """Return passes with each loop once.

    None where they differ by more than turns.
    """
    ordered = sorted(parts, key=lambda part: len(part.steps))
    short, longest = ordered[0], ordered[-1]
    if len(short.steps) == len(longest.steps):
        return None
    loops = find_loops(short, longest)
    if loops is None:
        return None
    folded = [part for part in (fold(short, loops, part) for part in parts) if part is not None]
    return folded if len(folded) == len(parts) else None


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
    if isinstance(step, LoopStep):
        return ("a loop", step.entered, step.values, step.storages)
    return step.storage
