"""Every layout that a search may try on a number of GPUs: degrees that divide the model, in every way to train or to serve."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from functools import cached_property
from itertools import chain, product
from typing import Any

from service.estimator.model.architecture import Architecture
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.workload import Offload, Quantization, ServeWorkload, TrainWorkload, Workload
from service.planner.fit.remedy_steps import Config
from service.planner.search.bounds import kept_of_sequence
from service.planner.search.counts import numbers_of
from service.planner.search.layout_options import RECOMPUTED, Batch, Slot
from service.planner.search.listings import Listings
from service.planner.search.offer import Offer
from service.planner.search.search_space import MAX_MICRO_BATCH_SIZE, Question
from service.planner.search.splits import DEGREES, Split, Splits
from service.planner.search.strategies import Way, needs_no_partner, offloads, quantizations

ROUNDS = 4
"""Micro batches per stage that keep a pipeline busy, where nobody says how many there are."""
Widest = tuple[int, int, tuple[Slot, ...]]
"""A number of GPUs, how many splits it adds, and their layouts."""


class Space:
    """The layouts of one question on one kind of GPU, as far as the tables of legality allow; what was listed is kept."""

    def __init__(self, model: Architecture, question: Question, offer: Offer) -> None:
        """Look at nothing but how the model divides."""
        self.question = question
        self.model, self._offer = model, offer
        self._slots: dict[tuple[Split, int], tuple[Slot, ...]] = {}
        self._on: dict[int, tuple[Slot, ...]] = {}
        self._divided: dict[int, int] = {}
        self._widest: dict[tuple[int, ...], tuple[Widest, ...]] = {}
        self._full: dict[int, Mapping[int, int]] = {}
        self._ranks_matter: dict[str, bool] = {}
        self._batches: dict[tuple[str, int, int], tuple[Batch, ...]] = {}
        self._workloads: dict[tuple[str, Offload, Batch], Workload] = {}
        asked = question.layout
        if offer.gpus_per_node is not None:
            asked = replace(asked, gpus_per_node=offer.gpus_per_node)
        for name in ("host_memory_bytes", "nvme_bytes", "network_bytes_per_second"):
            if getattr(asked, name) is None and getattr(offer, name) is not None:
                asked = replace(asked, **{name: getattr(offer, name)})
        self.asked = asked
        self._words: dict[str, Any] = {field.name: getattr(asked, field.name) for field in fields(asked)}
        self._alone = offer.device.mig_profile is not None
        self.listings = Listings(kept_of_sequence(model, question.workload))
        self.splits = Splits(model, question, asked, island_size=offer.island_size, alone=self._alone)

    @property
    def refused(self) -> Config | None:
        """Return the first configuration that a rule forbids."""
        return self.splits.refused

    @property
    def is_split(self) -> bool:
        """Whether degrees can be had at all, on however many GPUs."""
        return bool(self.splits.listed)

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """Numbers of GPUs that the question may be asked of, ascending."""
        return numbers_of(self.question, self._offer, self.asked)

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Those of the numbers that some layout fills."""
        return tuple(number for number in self.numbers if self._filled(number))

    def slots(self, num_gpus: int) -> tuple[Slot, ...]:
        """Return every layout of so many GPUs that some batch can run in."""
        found = self._on.get(num_gpus)
        if found is None:
            filled = self._filled(num_gpus)
            fitting = (split for split in self.splits.listed if split.num_ranks in filled)
            placed = (self._of_split(split, filled[split.num_ranks]) for split in fitting)
            found = self._on[num_gpus] = tuple(chain.from_iterable(placed))
        return found

    def widest(self, counts: tuple[int, ...]) -> tuple[Widest, ...]:
        """Return the largest numbers first, each with how many splits it adds and their layouts: no larger one had them alike.

        On more data-parallel ranks with the same batch each, a rank holds no more, and the job makes no fewer tokens per
        second: passes stay, and of d ranks each sends (d - 1) / d of its gradients, so that a step's time over d falls from
        d = 2 on. That holds while the ring's links are the same; one within a node is therefore told from one beyond it.
        """
        if counts not in self._widest:
            self._widest[counts] = tuple(self._widest_of(counts))
        return self._widest[counts]

    def _widest_of(self, counts: tuple[int, ...]) -> Iterator[Widest]:
        seen: set[tuple[Split, int]] = set()
        for count in reversed(counts):
            filled, added = self._filled(count), []
            for split in self.splits.listed:
                ranks = filled.get(split.num_ranks)
                known = (split, 0 if ranks is None else self._ring(split, ranks))
                if ranks is not None and known not in seen and (found := self._of_split(split, ranks)):
                    seen.add(known)
                    added.append(found)
            yield count, len(added), tuple(chain.from_iterable(added))

    def _ring(self, split: Split, ranks: int) -> int:
        """Return the kind of links that a split's data-parallel ranks talk over: none, a node's own, or a network."""
        tensor, _, context, _ = split.degrees
        shards = ranks * context
        return 0 if shards == 1 else 1 if shards * tensor <= self.asked.gpus_per_node else 2

    def _of_split(self, split: Split, ranks: int) -> tuple[Slot, ...]:
        found = self._slots.get((split, ranks))
        if found is None:
            found = self._slots[split, ranks] = tuple(slot for slot in self._placed(split, ranks) if self.batches(slot))
        return found

    def num_divisions(self, num_gpus: int) -> int:
        """Return in how many ways the degrees divide the model over so many GPUs: a part of its configurations, not listed."""
        found = self._divided.get(num_gpus)
        if found is None:
            found = self._divided[num_gpus] = sum(self._divisors[ranks] for ranks in self._filled(num_gpus))
        return found

    def batches(self, slot: Slot) -> tuple[Batch, ...]:
        """Return recomputation, micro batch and accumulation of a slot, those of the least memory first."""
        name = slot.way.name
        matter = self._ranks_matter.get(name)
        if matter is None:
            bounded = self.question.limits.global_batch_size is not None
            matter = self._ranks_matter[name] = bounded or self.splits.reach(slot.way).ranks_matter
        key = (name, slot.layout.pipeline_parallel, slot.layout.data_parallel if matter else 0)
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
        words = RECOMPUTED if open_ else (workload.activation_checkpointing,)
        sized, reach = tuple(self._sized(workload, layout)), self.splits.reach(slot.way)
        for rank, word in enumerate(RECOMPUTED):
            found = [Batch(rank, size, min(steps, layout.pipeline_parallel), steps) for size, steps in sized if word in words]
            for asked in found if reach.sizes_matter else found[:1]:
                if not reach.runs(*self.config(slot, asked)):
                    self.splits.refuse(*self.config(slot, asked))
                    found = [batch for batch in found if reach.sizes_matter and batch != asked]
            yield from found

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
    def _divisors(self) -> Mapping[int, int]:
        """How many splits have so many GPUs in one data-parallel rank."""
        return Counter(split.num_ranks for split in self.splits.listed)

    def _filled(self, num_gpus: int) -> Mapping[int, int]:
        """Return the data-parallel ranks that fill so many GPUs, by the GPUs of one of them, where some number does."""
        found = self._full.get(num_gpus)
        if found is None:
            asked = ((each, self._ranks(each, num_gpus)) for each in self._divisors)
            found = self._full[num_gpus] = {each: ranks for each, ranks in asked if ranks is not None}
        return found

    def _ranks(self, num_ranks: int, num_gpus: int) -> int | None:
        """Return the data-parallel ranks of so many GPUs each that fill all, None where no number does."""
        batch = self.question.limits.global_batch_size
        ranks, rest = divmod(num_gpus, num_ranks)
        workload, least = self.question.workload, self.question.limits.min_num_sequences
        serves = isinstance(workload, ServeWorkload)
        if isinstance(workload, ServeWorkload) and least is not None and ranks * workload.num_sequences < least:
            return None
        fixed = (serves and not self.question.counts_replicas) or not self.question.is_open("data_parallel")
        if not ranks or rest or (batch is not None and batch % ranks):
            return None
        return ranks if not fixed or ranks == self.asked.data_parallel else None

    def _placed(self, split: Split, ranks: int) -> Iterator[Slot]:
        way, degrees = split.way, split.degrees
        shards = ranks * degrees[2]
        if shards == 1 and not needs_no_partner(way, self.question):
            return
        words = self._words | dict(zip(DEGREES, degrees, strict=True))
        words |= {"data_parallel": ranks, "sharding": self.splits.sharding(way), "sequence_parallel": split.sequence_parallel}
        if way.framework is None and degrees[3] > 1 and self.question.is_open("expert_tensor_parallel"):
            words["expert_tensor_parallel"] = _of_each_expert(degrees, ranks)
        for stage in self._stages(way, shards):
            try:
                layout = Layout(**(words | {"zero_stage": stage}))
            except InvalidInputError:
                continue  # experts that do not regroup so many ranks
            for offload, quantization in self._elsewhere:
                slot = Slot(way=way, layout=layout, offload=offload, quantization=quantization)
                if self._is_legal(slot):
                    yield slot

    @cached_property
    def _elsewhere(self) -> tuple[tuple[Offload, Quantization | None], ...]:
        moved = offloads(self.question, has_nvme=self.asked.nvme_bytes is not None)
        return tuple(product(moved, quantizations(self.model, self.question)))

    def _is_legal(self, slot: Slot) -> bool:
        workload = self.question.workload
        if isinstance(workload, TrainWorkload) and workload.offload != slot.offload:
            workload = replace(workload, offload=slot.offload)
        elif isinstance(workload, ServeWorkload) and slot.quantization not in {None, workload.quantization}:
            workload = replace(workload, quantization=slot.quantization or workload.quantization)
        allowed = self.splits.reach(slot.way).places(workload, slot.layout)
        if not allowed:
            self.splits.refuse(workload, slot.layout)
        return allowed

    def _stages(self, way: Way, shards: int) -> tuple[int, ...]:
        """Return the stages to try: Megatron's distributed optimizer takes no more time than none, and less memory."""
        if way.framework is None or not self.question.is_open("zero_stage"):
            return (self.asked.zero_stage,)
        if way.sharding is Sharding.MEGATRON:
            return (way.stages[-1],) if shards > 1 else (way.stages[0],)
        return way.stages


def _of_each_expert(degrees: tuple[int, ...], ranks: int) -> int | None:
    """Return how many ranks split one expert of a server that spreads them over all; None is as many as split its layers."""
    tensor, _, _, expert = degrees
    each = tensor * ranks // expert
    return None if each in {0, tensor} else each


def _filled(workload: TrainWorkload, slot: Slot, batch: Batch) -> TrainWorkload:
    framework = slot.way.framework
    assert framework is not None  # noqa: S101 - a way to train
    word = RECOMPUTED[batch.recomputed]
    return replace(
        workload,
        framework=framework,
        offload=slot.offload,
        activation_checkpointing=word,
        micro_batch_size=batch.micro_batch_size,
        gradient_accumulation_steps=batch.steps,
    )
