"""Splits of a job: combinations of parallel degrees.

A framework and a model allow them, before their ranks are counted.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

from service.estimator.model.architecture import Architecture
from service.estimator.model.pipelines.megatron import spread_layers
from service.estimator.rules.grammar.facts import collect_facts
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import ContextMethod, Layout, Sharding
from service.estimator.values.memo import keep_latest
from service.estimator.values.pipeline import EVEN, PipelineSplit
from service.estimator.values.workload import Framework, ServeWorkload, TrainWorkload, Workload
from service.planner.fit.evaluator import Config
from service.planner.search.search_rules import ALLOWED, SearchRules
from service.planner.search.search_space import Question
from service.planner.search.strategies import Strategy, list_strategies

DEGREES = ("tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel")
SERVING_DEGREES = frozenset({"tensor_parallel", "pipeline_parallel"})
"""Degrees that a replica is split by."""
EXPERT_DEGREE = "expert_parallel"
"""Degree by which a server spreads its experts, which takes no GPU more."""
MAX_CONTEXT, MAX_STAGES = 64, 64
_FEWEST_LAYERS = 2
"""Layers of a stage below which an uneven split leaves one idle for a third of its time."""
Degrees = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Split:
    """Degrees in the order of ``DEGREES``, in one strategy.

    A question has one object for each.
    """

    strategy: Strategy
    degrees: Degrees
    num_ranks: int
    """GPUs of one data-parallel rank."""
    sequence_parallel: bool


def get_ring_kind(split: Split, ranks: int, gpus_per_node: int) -> int:
    """Return the kind of links between a split's data-parallel ranks.

    None, a node's own, or a network.
    """
    tensor, _, context, _ = split.degrees
    shards = ranks * context
    return 0 if shards == 1 else 1 if shards * tensor <= gpus_per_node else 2


class Splits:
    """The legal splits of one question."""

    def __init__(
        self,
        model: Architecture,
        question: Question,
        base_layout: Layout,
        *,
        island_size: int | None,
        is_isolated: bool,
    ) -> None:
        """Set up without looking at any split.

        GPUs that are ``is_isolated`` reach no other.
        """
        self.first_refused: Config | None = None
        """The first configuration that a rule forbids."""
        self._model, self._question, self._base_layout = model, question, base_layout
        self.island_size = island_size or base_layout.gpus_per_node
        self._is_isolated = is_isolated
        self._rules: dict[str, SearchRules] = {}

    @cached_property
    def listed(self) -> tuple[Split, ...]:
        """Every split, by strategy and from the simplest on."""
        return tuple(
            split
            for strategy in list_strategies(self._question)
            for split in self._iter_splits(strategy)
        )

    def get_rules(self, strategy: Strategy) -> SearchRules:
        """Return the search rules of a strategy."""
        rules = self._rules.get(strategy.name)
        if rules is None:
            unvaried = frozenset[str]() if self._question.allow else ALLOWED
            rules = SearchRules(
                collect_facts(self._model),
                self._build_workload(strategy),
                self._base_layout,
                stays=unvaried,
            )
            self._rules[strategy.name] = rules
        return rules

    def get_sharding(self, strategy: Strategy) -> Sharding:
        """Return the sharding of a strategy.

        Serving does not shard.
        """
        return self._base_layout.sharding if strategy.framework is None else strategy.sharding

    def get_pipeline_split(self, strategy: Strategy, stages: int) -> PipelineSplit:
        """Return how so many stages split the layers; engines do so themselves."""
        if strategy.framework is None:
            return self._base_layout.pipeline_split
        return choose_split(self._model.num_hidden_layers, self._base_layout, stages)

    def get_context_method(self, strategy: Strategy, ranks: int) -> ContextMethod:
        """Return how so many ranks share a sequence.

        transformers' ranks exchange heads by DeepSpeed, and pass keys and values on by all else.
        """
        if ranks == 1 or not self._question.is_open("context_parallel_method"):
            return self._base_layout.context_parallel_method
        by_heads = (Framework.TRANSFORMERS, Sharding.DEEPSPEED)
        exchanges = (strategy.framework, strategy.sharding) == by_heads
        return ContextMethod.ULYSSES if exchanges else ContextMethod.RING

    def record_refusal(self, workload: Workload, layout: Layout) -> None:
        """Record the first configuration that a rule forbids."""
        self.first_refused = self.first_refused or (workload, layout)

    def _iter_splits(self, strategy: Strategy) -> Iterator[Split]:
        tensor, pipeline, context, expert = (self._list_degrees(strategy, name) for name in DEGREES)
        for degrees in product(tensor, pipeline, context, expert):
            sequences = self._choose_sequence_parallel(strategy, degrees)
            if sequences is not None:
                tensors, stages, contexts, _ = degrees
                ranks = tensors * stages * contexts
                yield Split(
                    strategy=strategy, degrees=degrees, num_ranks=ranks, sequence_parallel=sequences
                )

    def _list_degrees(self, strategy: Strategy, name: str) -> tuple[int, ...]:
        """Return the possible values of one degree.

        The other degrees are not known yet.
        """
        fixed_degree: int = getattr(self._base_layout, name)
        values: Sequence[int] = range(
            1, (1 if self._is_isolated else self._get_max_degree(name)) + 1
        )
        if name == "pipeline_parallel" and strategy.framework is not None:
            values = self._list_pipelines(strategy, values)
        if not self._question.is_open(name) or (
            strategy.framework is None and name not in {*SERVING_DEGREES, EXPERT_DEGREE}
        ):
            values = (fixed_degree,)
        degrees = self.get_rules(strategy).list_degrees(name, values)
        if not degrees:
            self._refuse_degrees(strategy, {name: fixed_degree})
        return degrees

    def _list_pipelines(self, strategy: Strategy, values: Sequence[int]) -> Sequence[int]:
        """Return the numbers of stages to try.

        torchtitan's gather a stage's weights for a step, so that they win no search but their own.
        """
        if strategy.framework is Framework.TORCHTITAN and self._question.is_open("framework"):
            return (1,)
        return list_pipelines(self._model.num_hidden_layers, self._base_layout, values)

    def _get_max_degree(self, name: str) -> int:
        """Return the largest degree that is tried.

        Tensor-parallel ranks stay on an island.
        """
        match name:
            case "tensor_parallel":
                return self.island_size
            case "pipeline_parallel":
                return min(MAX_STAGES, self._model.num_hidden_layers)
            case "context_parallel":
                return MAX_CONTEXT
            case _:
                return max(self._model.spec.num_experts, 1)

    def _choose_sequence_parallel(self, strategy: Strategy, degrees: Degrees) -> bool | None:
        """Return whether to split sequences beside tensors.

        That saves memory for no time; None where neither is legal.
        """
        values: dict[str, object] = dict(zip(DEGREES, degrees, strict=True))
        values["sharding"] = self.get_sharding(strategy)
        values["pipeline_split"] = self.get_pipeline_split(strategy, degrees[1])
        values["context_parallel_method"] = self.get_context_method(strategy, degrees[2])
        options: Sequence[bool] = (
            (True, False) if degrees[0] > 1 and strategy.framework is not None else (False,)
        )
        if not self._question.is_open("sequence_parallel"):
            options = (self._base_layout.sequence_parallel,)
        for option in options:
            if self.get_rules(strategy).allows_split(values | {"sequence_parallel": option}):
                return option
        self._refuse_degrees(strategy, values)
        return None

    def _build_workload(self, strategy: Strategy) -> Workload:
        workload = self._question.workload
        return (
            replace(workload, framework=strategy.framework)
            if isinstance(workload, TrainWorkload) and strategy.framework
            else workload
        )

    def _refuse_degrees(self, strategy: Strategy, values: Mapping[str, object]) -> None:
        if self.first_refused is not None:
            return
        stage = (
            self._base_layout.zero_stage
            if self._base_layout.zero_stage in strategy.stages
            else strategy.stages[-1]
        )
        placed: dict[str, object] = {
            "sharding": self.get_sharding(strategy),
            "zero_stage": stage,
            **values,
        }
        with suppress(InvalidInputError):
            self.record_refusal(
                self._build_workload(strategy),
                replace(self._base_layout, **placed),  # type: ignore[arg-type]  # each word has its own type
            )


def list_varied_fields(question: Question) -> frozenset[str]:
    """Return the request fields that a search of this question varies."""
    if isinstance(question.workload, ServeWorkload):
        varied = {*SERVING_DEGREES, EXPERT_DEGREE} | (
            {"data_parallel"} if question.counts_replicas else set()
        )
    else:
        varied = {
            "data_parallel",
            "sequence_parallel",
            *DEGREES,
            "framework",
            "sharding",
            "zero_stage",
        }
        varied |= {"activation_checkpointing", "micro_batch_size", "gradient_accumulation_steps"}
    return frozenset((varied | question.allow) - question.fixed)


def list_pipelines(num_layers: int, layout: Layout, values: Sequence[int]) -> Sequence[int]:
    """Return the numbers of stages to try.

    They are those that divide the layers, and powers of two, which fill nodes.
    """
    if layout.pipeline_split != EVEN:
        return values
    virtual = layout.virtual_pipeline_stages
    return tuple(
        stages
        for stages in values
        if num_layers % (stages * virtual) == 0
        or (not stages & (stages - 1) and stages * virtual * _FEWEST_LAYERS <= num_layers)
    )


@keep_latest(1024)
def choose_split(num_layers: int, layout: Layout, stages: int) -> PipelineSplit:
    """Return how so many stages split the layers.

    It is as the question says, or as evenly as can be.
    """
    chunks = stages * layout.virtual_pipeline_stages
    if layout.pipeline_split != EVEN or stages == 1 or num_layers % chunks == 0:
        return layout.pipeline_split
    return PipelineSplit(pipeline_layers=spread_layers(num_layers, chunks))
