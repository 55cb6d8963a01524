"""Layouts and batches that a search may try on a GPU count.

Their degrees divide the model, in every strategy to train or to serve.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from functools import cached_property
from itertools import chain, product
from typing import Any

from service.estimator.model.architecture import Architecture
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.workload import (
    Offload,
    Quantization,
    ServeWorkload,
    TrainWorkload,
    Workload,
)
from service.planner.fit.remedy_steps import Config
from service.planner.search.bounds import compute_saved_activations
from service.planner.search.counts import list_gpu_counts
from service.planner.search.layout_options import CHECKPOINTING_BY_INDEX, Batch, LayoutOption
from service.planner.search.listings import Listings
from service.planner.search.offer import Offer
from service.planner.search.search_space import MAX_MICRO_BATCH_SIZE, Question
from service.planner.search.splits import DEGREES, Split, Splits
from service.planner.search.strategies import (
    Strategy,
    can_run_alone,
    list_offloads,
    list_quantizations,
)

MICRO_BATCHES_PER_STAGE = 4
"""Micro batches per stage that keep a pipeline busy, where the request does not fix their number.
"""
WidestOptions = tuple[int, int, tuple[LayoutOption, ...]]
"""A number of GPUs, how many splits it adds, and their layouts."""


class SearchSpace:
    """Search space of one question on one kind of GPU.

    It has the layouts that the table of rules allows; results are cached.
    """

    def __init__(self, model: Architecture, question: Question, offer: Offer) -> None:
        """Set up the space; only the model's divisibility is looked at."""
        self.question = question
        self.model, self._offer = model, offer
        self._options_by_split: dict[tuple[Split, int], tuple[LayoutOption, ...]] = {}
        self._options_by_count: dict[int, tuple[LayoutOption, ...]] = {}
        self._divisions_by_count: dict[int, int] = {}
        self._widest: dict[tuple[int, ...], tuple[WidestOptions, ...]] = {}
        self._ranks_by_count: dict[int, Mapping[int, int]] = {}
        self._ranks_matter: dict[str, bool] = {}
        self._batches: dict[tuple[str, int, int], tuple[Batch, ...]] = {}
        self._batches_by_option: dict[LayoutOption, tuple[Batch, ...]] = {}
        self._workloads: dict[tuple[str, int, Batch], Workload] = {}
        base_layout = question.layout
        if offer.gpus_per_node is not None:
            base_layout = replace(base_layout, gpus_per_node=offer.gpus_per_node)
        for name in ("host_memory_bytes", "nvme_bytes", "network_bytes_per_second"):
            if getattr(base_layout, name) is None and getattr(offer, name) is not None:
                base_layout = replace(base_layout, **{name: getattr(offer, name)})
        self.base_layout = base_layout
        self._layout_fields: dict[str, Any] = {
            field.name: getattr(base_layout, field.name) for field in fields(base_layout)
        }
        self._is_isolated = offer.device.mig_profile is not None
        self.listings = Listings(compute_saved_activations(model, question.workload))
        self.splits = Splits(
            model,
            question,
            base_layout,
            island_size=offer.island_size,
            is_isolated=self._is_isolated,
        )

    @property
    def first_refused(self) -> Config | None:
        """Return the first configuration that a rule forbids."""
        return self.splits.first_refused

    @property
    def is_split(self) -> bool:
        """Whether any degrees are legal, on however many GPUs."""
        return bool(self.splits.listed)

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """GPU counts that the question may be asked of, ascending."""
        return list_gpu_counts(self.question, self._offer, self.base_layout)

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """GPU counts that some layout fills."""
        return tuple(number for number in self.numbers if self._get_ranks_by_size(number))

    def list_options(self, num_gpus: int) -> tuple[LayoutOption, ...]:
        """Return every layout of so many GPUs with a legal batch."""
        options = self._options_by_count.get(num_gpus)
        if options is None:
            filled = self._get_ranks_by_size(num_gpus)
            fitting = (split for split in self.splits.listed if split.num_ranks in filled)
            placed = (self._list_split_options(split, filled[split.num_ranks]) for split in fitting)
            options = self._options_by_count[num_gpus] = tuple(chain.from_iterable(placed))
        return options

    def list_widest(self, counts: tuple[int, ...]) -> tuple[WidestOptions, ...]:
        """Return the GPU counts, largest first, with their new layouts.

        Each comes with how many splits it adds and their layouts: no larger count had them alike.

        On more data-parallel ranks with the same batch each, a rank holds no more, and the job
        makes no fewer tokens per second: passes stay, and of d ranks each sends (d - 1) / d of its
        gradients, so that a step's time over d falls from d = 2 on. That holds while the ring's
        links are the same; one within a node is therefore told from one beyond it.
        """
        if counts not in self._widest:
            self._widest[counts] = tuple(self._iter_widest(counts))
        return self._widest[counts]

    def _iter_widest(self, counts: tuple[int, ...]) -> Iterator[WidestOptions]:
        seen: set[tuple[Split, int]] = set()
        for count in reversed(counts):
            filled, added = self._get_ranks_by_size(count), []
            for split in self.splits.listed:
                ranks = filled.get(split.num_ranks)
                key = (split, 0 if ranks is None else self._get_ring_kind(split, ranks))
                if (
                    ranks is not None
                    and key not in seen
                    and (options := self._list_split_options(split, ranks))
                ):
                    seen.add(key)
                    added.append(options)
            yield count, len(added), tuple(chain.from_iterable(added))

    def _get_ring_kind(self, split: Split, ranks: int) -> int:
        """Return the kind of links between a split's data-parallel ranks.

        None, a node's own, or a network.
        """
        tensor, _, context, _ = split.degrees
        shards = ranks * context
        return 0 if shards == 1 else 1 if shards * tensor <= self.base_layout.gpus_per_node else 2

    def _list_split_options(self, split: Split, ranks: int) -> tuple[LayoutOption, ...]:
        options = self._options_by_split.get((split, ranks))
        if options is None:
            options = self._options_by_split[split, ranks] = tuple(
                option for option in self._iter_layouts(split, ranks) if self.list_batches(option)
            )
        return options

    def count_divisions(self, num_gpus: int) -> int:
        """Count the splits that divide the model over so many GPUs.

        Each stands for a part of the configurations, which are not listed.
        """
        count = self._divisions_by_count.get(num_gpus)
        if count is None:
            count = self._divisions_by_count[num_gpus] = sum(
                self._divisors[ranks] for ranks in self._get_ranks_by_size(num_gpus)
            )
        return count

    def list_batches(self, option: LayoutOption) -> tuple[Batch, ...]:
        """Return the batches of an option, least memory first.

        A batch is a recomputation, a micro batch and an accumulation.
        """
        batches = self._batches_by_option.get(option)
        if batches is None:
            batches = self._batches_by_option[option] = self._list_alike_batches(option)
        return batches

    def _list_alike_batches(self, option: LayoutOption) -> tuple[Batch, ...]:
        """Return the one listing of all options that have the same batches."""
        name = option.strategy.name
        matter = self._ranks_matter.get(name)
        if matter is None:
            bounded = self.question.limits.global_batch_size is not None
            matter = self._ranks_matter[name] = (
                bounded or self.splits.get_rules(option.strategy).ranks_matter
            )
        key = (name, option.layout.pipeline_parallel, option.layout.data_parallel if matter else 0)
        batches = self._batches.get(key)
        if batches is None:
            batches = self._batches[key] = tuple(self._iter_batches(option))
        return batches

    def _iter_batches(self, option: LayoutOption) -> Iterator[Batch]:
        workload, layout = self.question.workload, option.layout
        if isinstance(workload, ServeWorkload):
            yield Batch(0, workload.num_sequences, 1, 1)
            return
        is_open = self.question.is_open("activation_checkpointing")
        allowed = CHECKPOINTING_BY_INDEX if is_open else (workload.activation_checkpointing,)
        sized, rules = (
            tuple(self._iter_sizes(workload, layout)),
            self.splits.get_rules(option.strategy),
        )
        for rank, word in enumerate(CHECKPOINTING_BY_INDEX):
            batches = [
                Batch(rank, size, min(steps, layout.pipeline_parallel), steps)
                for size, steps in sized
                if word in allowed
            ]
            for candidate in batches if rules.sizes_matter else batches[:1]:
                if not rules.allows_batch(*self.build_config(option, candidate)):
                    self.splits.record_refusal(*self.build_config(option, candidate))
                    batches = [
                        batch for batch in batches if rules.sizes_matter and batch != candidate
                    ]
            yield from batches

    def build_config(self, option: LayoutOption, batch: Batch) -> Config:
        """Return the complete configuration of an option and a batch."""
        workload = self.question.workload
        if isinstance(workload, ServeWorkload):
            quantization = option.quantization or workload.quantization
            return workload if quantization is workload.quantization else replace(
                workload, quantization=quantization
            ), option.layout
        # The workload that is kept holds the offload, so that no other one takes its identity.
        key = (option.strategy.name, id(option.offload), batch)
        filled = self._workloads.get(key)
        if filled is None:
            filled = self._workloads[key] = _build_workload(workload, option, batch)
        return filled, option.layout

    def _iter_sizes(self, workload: TrainWorkload, layout: Layout) -> Iterator[tuple[int, int]]:
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
                steps = (
                    batch // (size * ranks)
                    if accumulates and size
                    else workload.gradient_accumulation_steps
                )
                if steps and size * steps * ranks == batch:
                    yield size, steps
            elif accumulates and layout.pipeline_parallel > 1:
                yield size, 1
                yield size, MICRO_BATCHES_PER_STAGE * layout.pipeline_parallel
            else:
                yield size, workload.gradient_accumulation_steps

    @cached_property
    def _divisors(self) -> Mapping[int, int]:
        """Number of splits by the GPUs of one data-parallel rank."""
        return Counter(split.num_ranks for split in self.splits.listed)

    def _get_ranks_by_size(self, num_gpus: int) -> Mapping[int, int]:
        """Return data-parallel ranks that fill so many GPUs.

        They are by the GPUs of one of them, where some number of ranks does.
        """
        ranks_by_size = self._ranks_by_count.get(num_gpus)
        if ranks_by_size is None:
            filling = {
                size: num_gpus // size
                for size in self._divisors
                if size <= num_gpus and not num_gpus % size
            }
            ranks_by_size = self._ranks_by_count[num_gpus] = {
                size: ranks for size, ranks in filling.items() if self._allows_ranks(ranks)
            }
        return ranks_by_size

    def _allows_ranks(self, ranks: int) -> bool:
        """Return whether a job may have so many data-parallel ranks."""
        batch = self.question.limits.global_batch_size
        if batch is not None and batch % ranks:
            return False
        workload, min_sequences = self.question.workload, self.question.limits.min_num_sequences
        serves = isinstance(workload, ServeWorkload)
        if (
            isinstance(workload, ServeWorkload)
            and min_sequences is not None
            and ranks * workload.num_sequences < min_sequences
        ):
            return False
        is_open = self.question.is_open("data_parallel") and (
            not serves or self.question.counts_replicas
        )
        return is_open or ranks == self.base_layout.data_parallel

    def _iter_layouts(self, split: Split, ranks: int) -> Iterator[LayoutOption]:
        strategy, degrees = split.strategy, split.degrees
        shards = ranks * degrees[2]
        if shards == 1 and not can_run_alone(strategy, self.question):
            return
        values = dict(self._layout_fields)
        values.update(zip(DEGREES, degrees, strict=True))
        values["data_parallel"] = ranks
        values["sharding"] = self.splits.get_sharding(strategy)
        values["sequence_parallel"] = split.sequence_parallel
        if (
            strategy.framework is None
            and degrees[3] > 1
            and self.question.is_open("expert_tensor_parallel")
        ):
            values["expert_tensor_parallel"] = _get_expert_tensor_parallel(degrees, ranks)
        for stage in self._list_stages(strategy, shards):
            values["zero_stage"] = stage
            try:
                layout = Layout(**values)
            except InvalidInputError:
                continue  # experts that do not regroup so many ranks
            for offload, quantization in self._offload_choices:
                option = LayoutOption(
                    strategy=strategy, layout=layout, offload=offload, quantization=quantization
                )
                if self._is_legal(option):
                    yield option

    @cached_property
    def _offload_choices(self) -> tuple[tuple[Offload, Quantization | None], ...]:
        moved = list_offloads(self.question, has_nvme=self.base_layout.nvme_bytes is not None)
        return tuple(product(moved, list_quantizations(self.model, self.question)))

    def _is_legal(self, option: LayoutOption) -> bool:
        workload = self.question.workload
        if isinstance(workload, TrainWorkload) and workload.offload != option.offload:
            workload = replace(workload, offload=option.offload)
        elif isinstance(workload, ServeWorkload) and option.quantization not in {
            None,
            workload.quantization,
        }:
            workload = replace(workload, quantization=option.quantization or workload.quantization)
        allowed = self.splits.get_rules(option.strategy).allows_layout(workload, option.layout)
        if not allowed:
            self.splits.record_refusal(workload, option.layout)
        return allowed

    def _list_stages(self, strategy: Strategy, shards: int) -> tuple[int, ...]:
        """Return the ZeRO stages to try.

        Megatron's distributed optimizer takes no more time than none, and less memory.
        """
        if strategy.framework is None or not self.question.is_open("zero_stage"):
            return (self.base_layout.zero_stage,)
        if strategy.sharding is Sharding.MEGATRON:
            return (strategy.stages[-1],) if shards > 1 else (strategy.stages[0],)
        return strategy.stages


def _get_expert_tensor_parallel(degrees: tuple[int, ...], ranks: int) -> int | None:
    """Return how many ranks split one expert of a server.

    The server spreads its experts over all ranks; None is as many as split its layers.
    """
    tensor, _, _, expert = degrees
    ranks_per_expert = tensor * ranks // expert
    return None if ranks_per_expert in {0, tensor} else ranks_per_expert


def _build_workload(workload: TrainWorkload, option: LayoutOption, batch: Batch) -> TrainWorkload:
    framework = option.strategy.framework
    assert framework is not None  # noqa: S101 - a way to train
    checkpointing = CHECKPOINTING_BY_INDEX[batch.checkpointing_index]
    return replace(
        workload,
        framework=framework,
        offload=option.offload,
        activation_checkpointing=checkpointing,
        micro_batch_size=batch.micro_batch_size,
        gradient_accumulation_steps=batch.gradient_accumulation_steps,
    )
