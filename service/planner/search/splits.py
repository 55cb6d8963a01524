"""How a job may be split: combinations of degrees that a framework and a model allow, before their ranks are counted."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

from service.estimator.model.architecture import Architecture
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.workload import ServeWorkload, TrainWorkload, Workload
from service.planner.fit.remedy_steps import Config
from service.planner.legality.facts import facts_of
from service.planner.legality.reach import ALLOWED, Reach
from service.planner.search.search_space import Question
from service.planner.search.strategies import Way, ways

DEGREES = ("tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel")
SERVED = frozenset({"tensor_parallel", "pipeline_parallel"})
"""Degrees that a replica is split by."""
SPREAD = "expert_parallel"
"""Over how many ranks a server spreads its experts, which takes no GPU more."""
MAX_CONTEXT, MAX_STAGES = 64, 64
Degrees = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Split:
    """Degrees in the order of ``DEGREES``, in one way; a question has one object for each."""

    way: Way
    degrees: Degrees
    num_ranks: int
    """GPUs of one data-parallel rank."""
    sequence_parallel: bool


class Splits:
    """The splits of one question, as the tables of legality allow them."""

    def __init__(self, model: Architecture, question: Question, asked: Layout, *, island_size: int | None, alone: bool) -> None:
        """Look at nothing yet; GPUs that are ``alone`` reach no other."""
        self.refused: Config | None = None
        """The first configuration that a rule forbids."""
        self._model, self._question, self._asked = model, question, asked
        self.island = island_size or asked.gpus_per_node
        self._alone = alone
        self._reaches: dict[str, Reach] = {}

    @cached_property
    def listed(self) -> tuple[Split, ...]:
        """Every split, in the order of the ways and from the simplest on."""
        return tuple(split for way in ways(self._question) for split in self._of(way))

    def reach(self, way: Way) -> Reach:
        """Return what a way lets the search combine."""
        found = self._reaches.get(way.name)
        if found is None:
            stays = frozenset[str]() if self._question.allow else ALLOWED
            found = Reach(facts_of(self._model), self._workload(way), self._asked, stays=stays)
            self._reaches[way.name] = found
        return found

    def sharding(self, way: Way) -> Sharding:
        """Return who shards in a way; who serves does not."""
        return self._asked.sharding if way.framework is None else way.sharding

    def refuse(self, workload: Workload, layout: Layout) -> None:
        """Remember the first configuration that a rule forbids."""
        self.refused = self.refused or (workload, layout)

    def _of(self, way: Way) -> Iterator[Split]:
        tensor, pipeline, context, expert = (self._options(way, name) for name in DEGREES)
        for degrees in product(tensor, pipeline, context, expert):
            sequences = self._sequences(way, degrees)
            if sequences is not None:
                tensors, stages, contexts, _ = degrees
                ranks = tensors * stages * contexts
                yield Split(way=way, degrees=degrees, num_ranks=ranks, sequence_parallel=sequences)

    def _options(self, way: Way, name: str) -> tuple[int, ...]:
        """Return the values that one degree may have, before it is known beside which others."""
        asked: int = getattr(self._asked, name)
        values: Sequence[int] = range(1, (1 if self._alone else self._most(name)) + 1)
        if not self._question.is_open(name) or (way.framework is None and name not in {*SERVED, SPREAD}):
            values = (asked,)
        found = self.reach(way).degrees(name, values)
        if not found:
            self._refuse_degrees(way, {name: asked})
        return found

    def _most(self, name: str) -> int:
        """Return the largest degree that is tried; tensor-parallel ranks stay on an island."""
        match name:
            case "tensor_parallel":
                return self.island
            case "pipeline_parallel":
                return min(MAX_STAGES, self._model.num_hidden_layers)
            case "context_parallel":
                return MAX_CONTEXT
            case _:
                return max(self._model.spec.num_experts, 1)

    def _sequences(self, way: Way, degrees: Degrees) -> bool | None:
        """Return whether sequences are split beside tensors, which saves memory for no time; None where neither is legal."""
        words: dict[str, object] = dict(zip(DEGREES, degrees, strict=True))
        words["sharding"] = self.sharding(way)
        options: Sequence[bool] = (True, False) if degrees[0] > 1 and way.framework is not None else (False,)
        if not self._question.is_open("sequence_parallel"):
            options = (self._asked.sequence_parallel,)
        for option in options:
            if self.reach(way).splits(words | {"sequence_parallel": option}):
                return option
        self._refuse_degrees(way, words)
        return None

    def _workload(self, way: Way) -> Workload:
        asked = self._question.workload
        return replace(asked, framework=way.framework) if isinstance(asked, TrainWorkload) and way.framework else asked

    def _refuse_degrees(self, way: Way, words: Mapping[str, object]) -> None:
        if self.refused is not None:
            return
        stage = self._asked.zero_stage if self._asked.zero_stage in way.stages else way.stages[-1]
        placed: dict[str, object] = {"sharding": self.sharding(way), "zero_stage": stage, **words}
        with suppress(InvalidInputError):
            self.refuse(self._workload(way), replace(self._asked, **placed))  # type: ignore[arg-type]  # each word has its own type


def varied_words(question: Question) -> frozenset[str]:
    """Return the fields of a request that a search of this question varies."""
    if isinstance(question.workload, ServeWorkload):
        varied = {*SERVED, SPREAD} | ({"data_parallel"} if question.counts_replicas else set())
    else:
        varied = {"data_parallel", "sequence_parallel", *DEGREES, "framework", "sharding", "zero_stage"}
        varied |= {"activation_checkpointing", "micro_batch_size", "gradient_accumulation_steps"}
    return frozenset((varied | question.allow) - question.fixed)
