"""Layouts of a split on a number of data-parallel ranks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property
from itertools import product, takewhile
from typing import Any

from service.estimator.model.architecture import Architecture
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.workload import (
    Framework,
    Offload,
    Quantization,
    TrainWorkload,
    Workload,
)
from service.planner.search.layout_options import LayoutOption
from service.planner.search.search_space import Question
from service.planner.search.splits import DEGREES, Degrees, Split, Splits
from service.planner.search.strategies import (
    Strategy,
    has_alike_strategies,
    list_offloads,
    list_quantizations,
)


class SplitLayouts:
    """Legal layouts of one question's splits."""

    def __init__(
        self, model: Architecture, question: Question, base_layout: Layout, splits: Splits
    ) -> None:
        """Set up without looking at any split."""
        self._model, self._question, self._splits = model, question, splits
        self._base_layout = base_layout
        self._layout_fields: dict[str, Any] = {
            field.name: getattr(base_layout, field.name) for field in fields(base_layout)
        }
        self._fields_by_split: dict[Split, dict[str, Any]] = {}

    def iter_options(self, split: Split, ranks: int) -> Iterator[LayoutOption]:
        """Yield every option of a split on so many data-parallel ranks."""
        is_alone = ranks * split.degrees[2] == 1
        if is_alone and has_alike_strategies(self._question) and self._has_simpler(split, ranks):
            return
        yield from self._iter_legal(split, ranks)

    def _has_simpler(self, split: Split, ranks: int) -> bool:
        """Return whether an earlier strategy of the framework is legal.

        FSDP2 stands for no other: it gathers on a single rank too, which takes memory and time.
        """
        splits = self._splits_by_degrees[split.strategy.framework, split.degrees]
        earlier = takewhile(lambda other: other is not split, splits)
        return any(
            next(self._iter_legal(other, ranks), None) is not None
            for other in earlier
            if other.strategy.sharding is not Sharding.FSDP2
        )

    @cached_property
    def _splits_by_degrees(self) -> Mapping[tuple[Framework | None, Degrees], Sequence[Split]]:
        by_degrees: dict[tuple[Framework | None, Degrees], list[Split]] = {}
        for split in self._splits.listed:
            by_degrees.setdefault((split.strategy.framework, split.degrees), []).append(split)
        return by_degrees

    def has_every_choice(self, split: Split, ranks: int) -> bool:
        """Return whether so many ranks have every layout of a split.

        No other number has one that they lack. Stages and offloads are the same on several ranks,
        unless a rule about ranks forbids some.
        """
        rules = self._splits.get_rules(split.strategy)
        return ranks > 1 and all(
            layout is not None
            and (
                not rules.allows_some_ranks(workload, layout)
                or rules.allows_layout(workload, layout)
            )
            for layout in self._iter_layouts(split, ranks)
            for _, _, workload in self._offload_choices
        )

    def _iter_legal(self, split: Split, ranks: int) -> Iterator[LayoutOption]:
        strategy = split.strategy
        for layout in self._iter_layouts(split, ranks):
            if layout is None:
                continue  # experts that do not regroup so many ranks
            for offload, quantization, workload in self._offload_choices:
                if self._is_legal(strategy, workload, layout):
                    yield LayoutOption(
                        strategy=strategy, layout=layout, offload=offload, quantization=quantization
                    )

    def _iter_layouts(self, split: Split, ranks: int) -> Iterator[Layout | None]:
        """Yield the layout of each ZeRO stage, None where there is none."""
        strategy, degrees = split.strategy, split.degrees
        values = self._fields_by_split.get(split)
        if values is None:
            values = self._fields_by_split[split] = self._collect_fields(split)
        values["data_parallel"] = ranks
        if (
            strategy.framework is None
            and degrees[3] > 1
            and self._question.is_open("expert_tensor_parallel")
        ):
            values["expert_tensor_parallel"] = _get_expert_tensor_parallel(degrees, ranks)
        for stage in self._list_stages(strategy, ranks * degrees[2]):
            values["zero_stage"] = stage
            try:
                yield Layout(**values)
            except InvalidInputError:
                yield None

    def _collect_fields(self, split: Split) -> dict[str, Any]:
        """Return the fields of a split's layouts, without ranks and stage."""
        strategy, degrees = split.strategy, split.degrees
        return {
            **self._layout_fields,
            **dict(zip(DEGREES, degrees, strict=True)),
            "sharding": self._splits.get_sharding(strategy),
            "sequence_parallel": split.sequence_parallel,
            "pipeline_split": self._splits.get_pipeline_split(strategy, degrees[1]),
            "context_parallel_method": self._splits.get_context_method(strategy, degrees[2]),
        }

    @cached_property
    def _offload_choices(self) -> tuple[tuple[Offload, Quantization | None, Workload], ...]:
        """Contents of a GPU, each with its workload."""
        moved = list_offloads(self._question, has_nvme=self._base_layout.nvme_bytes is not None)
        return tuple(
            (offload, quantization, self._apply_choice(offload, quantization))
            for offload, quantization in product(
                moved, list_quantizations(self._model, self._question)
            )
        )

    def _apply_choice(self, offload: Offload, quantization: Quantization | None) -> Workload:
        workload = self._question.workload
        if isinstance(workload, TrainWorkload):
            return replace(workload, offload=offload)
        return replace(workload, quantization=quantization or workload.quantization)

    def _is_legal(self, strategy: Strategy, workload: Workload, layout: Layout) -> bool:
        allowed = self._splits.get_rules(strategy).allows_layout(workload, layout)
        if not allowed:
            self._splits.record_refusal(workload, layout)
        return allowed

    def _list_stages(self, strategy: Strategy, shards: int) -> tuple[int, ...]:
        """Return the ZeRO stages to try.

        Megatron's distributed optimizer takes no more time than none, and less memory.
        """
        if strategy.framework is None or not self._question.is_open("zero_stage"):
            return (self._base_layout.zero_stage,)
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
