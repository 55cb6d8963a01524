"""Layouts and batches that a search may try on a GPU count.

Their degrees divide the model, in every strategy to train or to serve.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import chain

from service.estimator.model.architecture import Architecture
from service.estimator.values.layout import Layout
from service.estimator.values.workload import ServeWorkload, TrainWorkload, Workload
from service.planner.fit.evaluator import Config
from service.planner.search.bounds import compute_saved_activations
from service.planner.search.layout_options import CHECKPOINTING_BY_INDEX, Batch, LayoutOption
from service.planner.search.listings import Listings
from service.planner.search.offer import Offer, list_gpu_counts
from service.planner.search.search_space import MAX_MICRO_BATCH_SIZE, Question
from service.planner.search.split_layouts import SplitLayouts
from service.planner.search.splits import Split, Splits, get_ring_kind

MICRO_BATCHES_PER_STAGE = 4
"""Micro batches per stage that keep a pipeline busy, where the request fixes no number."""
WidestOptions = tuple[int, int, tuple[LayoutOption, ...]]
"""A number of GPUs, how many splits it adds, and their layouts."""


class SearchSpace:
    """Search space of one question on one kind of GPU.

    It has the layouts that the table of rules allows; results are cached.
    """

    def __init__(self, model: Architecture, question: Question, offer: Offer) -> None:
        """Set up the space; only the model's divisibility is looked at."""
        self.question, self.model, self._offer = question, model, offer
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
        self.listings = Listings(compute_saved_activations(model, question.workload))
        self.splits = Splits(
            model,
            question,
            base_layout,
            island_size=offer.island_size,
            is_isolated=offer.device.mig_profile is not None,
        )
        self.split_layouts = SplitLayouts(model, question, base_layout, self.splits)

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
            options = self._options_by_count[num_gpus] = tuple(
                chain.from_iterable(
                    self._list_split_options(split, filled[split.num_ranks])
                    for split in self.splits.listed
                    if split.num_ranks in filled
                )
            )
        return options

    def list_split_options(self, split: Split, num_gpus: int) -> tuple[LayoutOption, ...]:
        """Return the layouts of one split that fill so many GPUs."""
        ranks = self._get_ranks_by_size(num_gpus).get(split.num_ranks)
        return () if ranks is None else self._list_split_options(split, ranks)

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
        per_node = self.base_layout.gpus_per_node
        for count in reversed(counts):
            filled, added = self._get_ranks_by_size(count), []
            for split in self.splits.listed:
                ranks = filled.get(split.num_ranks)
                key = (split, 0 if ranks is None else get_ring_kind(split, ranks, per_node))
                if (
                    ranks is not None
                    and key not in seen
                    and (options := self._list_split_options(split, ranks))
                ):
                    seen.add(key)
                    added.append(options)
            yield count, len(added), tuple(chain.from_iterable(added))

    def _list_split_options(self, split: Split, ranks: int) -> tuple[LayoutOption, ...]:
        options = self._options_by_split.get((split, ranks))
        if options is None:
            options = self._options_by_split[split, ranks] = tuple(
                option
                for option in self.split_layouts.iter_options(split, ranks)
                if self.list_batches(option)
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
        sized = tuple(self._iter_sizes(workload, layout))
        rules = self.splits.get_rules(option.strategy)
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
