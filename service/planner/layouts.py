"""Every layout that a search may try on a number of GPUs: degrees that divide the model, in every way to train or to serve."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

from service.estimator.architecture import Architecture
from service.estimator.errors import InvalidInputError
from service.estimator.layout import Layout, Sharding
from service.estimator.workload import Checkpointing, Offload, Quantization, ServeWorkload, TrainWorkload, Workload
from service.planner.moves import Config
from service.planner.offer import Offer
from service.planner.space import MAX_MICRO_BATCH_SIZE, Question
from service.planner.ways import (
    CONTEXT,
    DEGREES,
    PIPELINE,
    TENSOR,
    Way,
    divisors,
    needs_no_partner,
    offloads,
    quantizations,
    ways,
)

MAX_CONTEXT, MAX_STAGES = 64, 64
ROUNDS = 4
"""Micro batches per stage that keep a pipeline busy, where nobody says how many there are."""
_RECOMPUTED = (Checkpointing.FULL, Checkpointing.SELECTIVE, Checkpointing.NONE)
Degrees = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Slot:
    """One layout in one way, without its batch and its recomputation; a space has one object for each."""

    way: Way
    layout: Layout
    offload: Offload
    quantization: Quantization | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """What decides a slot's activations, each the less the smaller; ``flying`` micro batches are in a pipeline at once."""

    recomputed: int
    micro_batch_size: int
    flying: int
    steps: int

    def dominates(self, other: "Batch") -> bool:
        """Whether this needs at least the memory of another batch of the same slot."""
        return (
            self.recomputed >= other.recomputed
            and self.micro_batch_size >= other.micro_batch_size
            and self.flying >= other.flying
            and (self.steps > 1) >= (other.steps > 1)
        )


class Space:
    """The layouts of one question on one kind of GPU; what was listed is kept."""

    def __init__(self, model: Architecture, question: Question, offer: Offer) -> None:
        """Look at nothing but how the model divides."""
        self.question = question
        self._model, self._offer = model, offer
        self._slots: dict[int, tuple[Slot, ...]] = {}
        self._batches: dict[tuple[str, int, int], tuple[Batch, ...]] = {}
        self._workloads: dict[tuple[str, Offload, Batch], Workload] = {}
        asked = question.layout
        if offer.gpus_per_node is not None:
            asked = replace(asked, gpus_per_node=offer.gpus_per_node)
        for name in ("host_memory_bytes", "network_bytes_per_second"):
            if getattr(asked, name) is None and getattr(offer, name) is not None:
                asked = replace(asked, **{name: getattr(offer, name)})
        self.asked = asked

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Numbers of GPUs, ascending: any number within a node, then whole nodes, each of which some layout fills."""
        limits, per_node = self.question.limits, self.asked.gpus_per_node
        most = min(limits.max_gpus, limits.max_gpus if self._offer.max_gpus is None else self._offer.max_gpus)
        if limits.max_nodes is not None:
            most = min(most, limits.max_nodes * per_node)
        numbers = (*range(1, min(per_node, most) + 1), *range(2 * per_node, most + 1, per_node))
        return tuple(number for number in numbers if self._is_filled(number))

    def slots(self, num_gpus: int) -> tuple[Slot, ...]:
        """Return every layout of so many GPUs that some batch can run in."""
        found = self._slots.get(num_gpus)
        if found is None:
            made = (slot for way, degrees in self._degrees for slot in self._placed(way, degrees, num_gpus))
            found = self._slots[num_gpus] = tuple(slot for slot in made if self.batches(slot))
        return found

    def num_layouts(self, num_gpus: int) -> int:
        """Return how many configurations so many GPUs have."""
        return sum(len(self.batches(slot)) for slot in self.slots(num_gpus))

    def batches(self, slot: Slot) -> tuple[Batch, ...]:
        """Return recomputation, micro batch and accumulation of a slot, those of the least memory first."""
        key = (slot.way.name, slot.layout.pipeline_parallel, slot.layout.data_parallel)
        found = self._batches.get(key)
        if found is None:
            found = self._batches[key] = tuple(self._listed(slot))
        return found

    def _listed(self, slot: Slot) -> Iterator[Batch]:
        workload, layout = self.question.workload, slot.layout
        if isinstance(workload, ServeWorkload):
            yield Batch(0, workload.num_sequences, 1, 1)
            return
        open_ = self.question.is_open("activation_checkpointing")
        words = slot.way.checkpointings if open_ else (workload.activation_checkpointing,)
        for rank, word in enumerate(_RECOMPUTED):
            if word in words:
                for size, steps in self._sized(workload, layout):
                    yield Batch(rank, size, min(steps, layout.pipeline_parallel), steps)

    def config(self, slot: Slot, batch: Batch) -> Config:
        """Return the complete configuration of a slot and a batch."""
        workload = self.question.workload
        if isinstance(workload, ServeWorkload):
            asked = slot.quantization or workload.quantization
            return workload if asked is workload.quantization else replace(workload, quantization=asked), slot.layout
        key = (slot.way.name, slot.offload, batch)
        found = self._workloads.get(key)
        if found is None:
            found = self._workloads[key] = _filled(workload, slot, batch)
        return found, slot.layout

    def _sized(self, workload: TrainWorkload, layout: Layout) -> Iterator[tuple[int, int]]:
        """Yield micro batch and accumulation, small micro batches first."""
        question, ranks = self.question, layout.data_parallel
        batch = question.limits.global_batch_size
        accumulates = question.is_open("gradient_accumulation_steps")
        if not question.is_open("micro_batch_size"):
            sizes: tuple[int, ...] = (workload.micro_batch_size,)
        elif batch is not None and not accumulates:
            sizes = (batch // (workload.gradient_accumulation_steps * ranks),)
        else:
            sizes = tuple(2**power for power in range(MAX_MICRO_BATCH_SIZE.bit_length()))
        for size in sizes:
            if batch is not None:
                steps = batch // (size * ranks) if accumulates and size else workload.gradient_accumulation_steps
                if steps and size * steps * ranks == batch:
                    yield size, steps
            elif accumulates and layout.pipeline_parallel > 1:
                yield size, 1
                yield size, ROUNDS * layout.pipeline_parallel
            else:
                yield size, workload.gradient_accumulation_steps

    @cached_property
    def _degrees(self) -> tuple[tuple[Way, Degrees], ...]:
        """Every combination of degrees, in the order of the ways and from the simplest on."""
        return tuple(
            (way, (tensor, pipeline, context, expert))
            for way in ways(self.question)
            for tensor, pipeline, context, expert in product(*(self._options(way, name) for name in DEGREES))
        )

    def _options(self, way: Way, name: str) -> tuple[int, ...]:
        """Return the values that one degree may have, before it is known on how many GPUs."""
        asked: int = getattr(self.asked, name)
        if not self.question.is_open(name):
            return (asked,)
        if name not in way.splits:
            return (1,)
        spec = self._model.spec
        match name:
            case _ if name == TENSOR:
                island = self._offer.island_size or self.asked.gpus_per_node
                return tuple(
                    ranks for ranks in divisors(spec.num_attention_heads) if ranks <= island and self._shares(way, ranks)
                )
            case _ if name == PIPELINE:
                layers, parts = self._model.num_hidden_layers, self.asked.virtual_pipeline_stages
                return tuple(stages for stages in divisors(layers) if stages <= MAX_STAGES and layers % (stages * parts) == 0)
            case _ if name == CONTEXT:
                return self._context_ranks()
            case _:
                return divisors(spec.num_experts) if spec.num_experts else (1,)

    def _shares(self, way: Way, ranks: int) -> bool:
        spec = self._model.spec
        heads = spec.num_key_value_heads
        return spec.intermediate_size % ranks == 0 and (heads % ranks == 0 or (way.shares_heads and ranks % heads == 0))

    def _context_ranks(self) -> tuple[int, ...]:
        """Return powers of two, each rank of which takes two slices of a sequence."""
        workload = self.question.workload
        assert isinstance(workload, TrainWorkload)  # noqa: S101 - serving splits no sequences
        powers = (2**power for power in range(MAX_CONTEXT.bit_length()))
        return tuple(ranks for ranks in powers if ranks == 1 or workload.sequence_length % (2 * ranks) == 0)

    def _is_filled(self, num_gpus: int) -> bool:
        return any(self._ranks(degrees, num_gpus) for _, degrees in self._degrees)

    def _ranks(self, degrees: Degrees, num_gpus: int) -> int | None:
        """Return the data-parallel ranks that fill so many GPUs, None where no number does."""
        tensor, pipeline, context, _ = degrees
        batch = self.question.limits.global_batch_size
        ranks, rest = divmod(num_gpus, tensor * pipeline * context)
        serves = isinstance(self.question.workload, ServeWorkload)
        fixed = serves or not self.question.is_open("data_parallel")
        if not ranks or rest or (batch is not None and batch % ranks):
            return None
        return ranks if not fixed or ranks == self.asked.data_parallel else None

    def _placed(self, way: Way, degrees: Degrees, num_gpus: int) -> Iterator[Slot]:
        ranks = self._ranks(degrees, num_gpus)
        if ranks is None:
            return
        shards = ranks * degrees[2]
        if shards == 1 and not needs_no_partner(way, self.question):
            return
        values = dict(zip(DEGREES, degrees, strict=True)) | {"data_parallel": ranks}
        if way.splits_norms and self.question.is_open("sequence_parallel"):
            values["sequence_parallel"] = degrees[0] > 1
        for stage in self._stages(way, shards):
            try:
                layout = replace(self.asked, sharding=self._sharding(way), zero_stage=stage, **values)  # type: ignore[arg-type]  # degrees are integers
            except InvalidInputError:
                continue  # experts that do not regroup so many ranks
            for offload, quantization in product(
                offloads(way, stage, self.question), quantizations(self._model, self.question)
            ):
                yield Slot(way=way, layout=layout, offload=offload, quantization=quantization)

    def _sharding(self, way: Way) -> Sharding:
        return self.asked.sharding if way.framework is None else way.sharding

    def _stages(self, way: Way, shards: int) -> tuple[int, ...]:
        """Return the stages to try: Megatron's distributed optimizer takes no more time than none, and less memory."""
        if way.framework is None or not self.question.is_open("zero_stage"):
            return (self.asked.zero_stage,)
        if way.splits_norms:
            return (way.stages[-1],) if shards > 1 else (way.stages[0],)
        return way.stages


def varied_words(question: Question) -> frozenset[str]:
    """Return the fields of a request that a search of this question varies."""
    if isinstance(question.workload, ServeWorkload):
        varied = {TENSOR, PIPELINE}
    else:
        varied = {"data_parallel", "sequence_parallel", *DEGREES, "framework", "sharding", "zero_stage"}
        varied |= {"activation_checkpointing", "micro_batch_size", "gradient_accumulation_steps"}
    return frozenset((varied | question.allow) - question.fixed)


def _filled(workload: TrainWorkload, slot: Slot, batch: Batch) -> TrainWorkload:
    framework = slot.way.framework
    assert framework is not None  # noqa: S101 - a way to train
    word = _RECOMPUTED[batch.recomputed]
    return replace(
        workload,
        framework=framework,
        offload=slot.offload,
        activation_checkpointing=word,
        micro_batch_size=batch.micro_batch_size,
        gradient_accumulation_steps=batch.steps,
    )
