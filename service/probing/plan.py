"""Probe questions, points and plans of runs."""

from dataclasses import dataclass, replace

from service.estimator.model.architecture import Architecture
from service.estimator.values.layout import Layout
from service.estimator.values.workload import TrainWorkload, Workload
from service.probing.stack import get_layer_stack

NUM_MICRO_BATCHES = 2
"""Micro-batches of one step under accumulation: the second already sees gradients, a third sees
nothing new.
"""
NUM_STEPS = 2
"""The first step makes the optimizer's states; the second is the steady one that is measured."""
NUM_COLD_ROUNDS = 2
"""Rounds of a point on a GPU: the first makes what later ones find (states, workspaces, kernels'
code), the second fills the allocator's cache.
"""
NUM_TIMED_ROUNDS = 3
NUM_ROUNDS = NUM_COLD_ROUNDS + NUM_TIMED_ROUNDS + 1
"""The last one is looked at closely and not timed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One model to run: some layers at one batch and sequence length.

    It is the question's model with only these of its ``layers``; ``sequence_length`` counts the
    prompt in serving.
    """

    layers: tuple[int, ...]
    micro_batch_size: int
    sequence_length: int
    output_tokens: int = 0

    @property
    def num_layers(self) -> int:
        """Number of layers in the run."""
        return len(self.layers)

    @property
    def num_tokens(self) -> int:
        """Tokens of one pass, output included."""
        return self.micro_batch_size * (self.sequence_length + self.output_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeQuestion:
    """Model, workload and layout to measure, with a deadline."""

    architecture: Architecture
    workload: Workload
    layout: Layout
    full_depth: bool
    deadline_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One point of a plan, its reason and its expected duration."""

    point: Point
    why: str
    expected_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbePlan:
    """Runs of a probe, small sizes first and checks last.

    ``target`` is the point that the answer is for. ``pace`` is a run at the end that tells of the
    machine alone.
    """

    target: Point
    runs: tuple[Run, ...]
    notes: tuple[str, ...] = ()
    pace: Run | None = None

    @property
    def points(self) -> tuple[Point, ...]:
        """The points that the answer rests on."""
        return tuple(run.point for run in self.runs)

    @property
    def all_runs(self) -> tuple[Run, ...]:
        """Every run in its order."""
        return self.runs if self.pace is None else (*self.runs, self.pace)

    @property
    def expected_s(self) -> float:
        """Seconds that all runs together are expected to take."""
        return sum(run.expected_s for run in self.all_runs)

    @property
    def exact_tokens(self) -> bool:
        """Whether the target's batch and sequence are run themselves."""
        return any(
            replace(point, layers=self.target.layers) == self.target for point in self.points
        )

    @property
    def extrapolated(self) -> bool:
        """Whether the target model is not among the runs."""
        return self.target not in self.points


def get_target_point(question: ProbeQuestion) -> Point:
    """Return the point that the answer is for."""
    workload, layers = question.workload, get_layer_stack(question.architecture).layers
    if isinstance(workload, TrainWorkload):
        return Point(
            layers=layers,
            micro_batch_size=workload.micro_batch_size,
            sequence_length=workload.sequence_length,
        )
    return Point(
        layers=layers,
        micro_batch_size=workload.num_sequences,
        sequence_length=workload.prompt_tokens,
        output_tokens=workload.output_tokens,
    )


def build_workload(workload: Workload, point: Point) -> Workload:
    """Return the workload with the batch and the lengths of ``point``."""
    if isinstance(workload, TrainWorkload):
        return replace(
            workload, micro_batch_size=point.micro_batch_size, sequence_length=point.sequence_length
        )
    return replace(
        workload,
        num_sequences=point.micro_batch_size,
        prompt_tokens=point.sequence_length,
        output_tokens=point.output_tokens,
    )
