"""Head of a task other than a language model's.

Which positions it reads, what it does with them, and what its output is compared with.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear
from service.estimator.tape.nodes import Value
from service.estimator.values.heads import Head, Problem

NO_OUTPUT = Linear(name="", kind="other", in_features=0, out_features=0)
"""Output layer of a model that returns its hidden states."""
Transform = Callable[[Recording, Value], Value]


class Pooling(StrEnum):
    """Positions of a sequence that a head reads."""

    ALL = "all"
    """each position has its own output"""
    FIRST = "first"
    """the first position, that of the class token"""
    LAST = "last"
    """all positions, of whose outputs that of the last token is taken"""
    MEAN = "mean"
    """their mean over the mask of padding"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskHead:
    """Head of one task.

    ``transform`` takes what pooling leaves, which stays with the caller, to what the output layer
    reads.
    """

    kind: Head
    pooling: Pooling
    num_labels: int = 0
    problem: Problem = Problem.SINGLE_LABEL
    transform: Transform | None = None
    linears: tuple[Linear, ...] = ()
    """Linear layers of the transform, in order of use."""
    names_input: bool = True
    """Whether the model's forward has a name for what the output layer reads until its end."""
    upcasts: bool = False
    """Whether the loss is computed on an fp32 copy of the scores."""
    saved: frozenset[str] = frozenset()
    """Names of the tensors that adapters leave to be trained in full (PEFT's
    ``modules_to_save``).
    """


def get_saved_names(task: TaskHead | None) -> frozenset[str]:
    """Return the names of the tensors that PEFT trains in full."""
    return frozenset() if task is None else task.saved


def list_saved_modules(task: TaskHead | None) -> list[str]:
    """Return the modules with those tensors, as PEFT's ``modules_to_save`` names them."""
    return sorted({name.partition(".")[0] for name in get_saved_names(task)})
