"""Memory of torchtitan's pipeline on each stage.

A stage's weights stay gathered for the whole step, and its gradients are added up unsharded in the
dtype of their reduction until the last micro-batch (torch 2.13
``distributed/pipelining/stage.py``: ``set_reshard_after_backward(False)``,
``set_requires_gradient_sync(False)``; ``_fully_shard/_fsdp_param.py``:
``to_accumulated_grad_if_needed``).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from service.estimator.backends.torchtitan.parts import PartRecord, StagePart, cut_part, record_part
from service.estimator.memory.phase_peaks import Parts, PhasePeak
from service.estimator.memory.setup import resolve_setup
from service.estimator.memory.static import StaticMemory, build_static_memory
from service.estimator.memory.step_prices import INSTANTS
from service.estimator.model.architecture import Architecture
from service.estimator.model.pipelines.chunks import Chunk, list_stage_positions
from service.estimator.model.pipelines.in_flight import Moment, list_moments
from service.estimator.model.pipelines.passes import PassKind
from service.estimator.passes.config import TrainingPass
from service.estimator.tape import sizes
from service.estimator.values.layout import Layout
from service.estimator.values.memo import Memo
from service.estimator.values.pipeline import EVEN
from service.estimator.values.workload import TrainWorkload

MAX_GATHERED_CHUNKS = 3
"""Chunks of a stage whose weights are gathered at once (torch 2.13 ``schedules.py``,
``_add_unshard_reshard``, ``max_active_stages``).
"""
_BACKWARD = frozenset({PassKind.BACKWARD, PassKind.INPUT, PassKind.WEIGHT})
_KINDS = {
    "forward": frozenset({PassKind.FORWARD}),
    "loss": frozenset({PassKind.FORWARD}) | _BACKWARD,
    "backward": _BACKWARD,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TitanStage:
    """Stage with its phase peaks and its micro-batches in flight."""

    stage: int
    peaks: tuple[PhasePeak, ...]
    steady_bytes: int
    layers: tuple[int, ...]
    in_flight: tuple[int, ...]
    num_parameters: int

    @property
    def peak(self) -> PhasePeak:
        """Highest phase peak."""
        return max(self.peaks, key=lambda moment: moment.allocated_bytes)


def flatten_pipeline(layout: Layout) -> Layout:
    """Return the layout of one stage alone."""
    return replace(
        layout,
        pipeline_parallel=1,
        virtual_pipeline_stages=1,
        pipeline_split=EVEN,
        pipeline_schedule=None,
    )


class PipelineWalk:
    """Walk over the stages of one question."""

    def __init__(
        self,
        model: Architecture,
        workload: TrainWorkload,
        layout: Layout,
        config: TrainingPass,
        records: Memo[PartRecord],
        key: object,
    ) -> None:
        """Set up a walk.

        ``model`` is a rank's shard in torchtitan's form, with all layers.
        """
        self._model, self._workload, self._layout = model, workload, layout
        self._config = replace(config, gathering=None, accumulating=True)
        self._records, self._key = records, key
        self._values = sizes.evaluate_monomials(workload.micro_batch_size, workload.sequence_length)
        self._static: dict[StagePart, StaticMemory] = {}

    def list_stages(self, chunks: tuple[Chunk, ...]) -> tuple[TitanStage, ...]:
        """Return every stage of a split model."""
        return tuple(
            self._build_stage(
                stage, [chunks[index] for index in list_stage_positions(self._layout, stage)]
            )
            for stage in range(self._layout.pipeline_parallel)
        )

    def _build_stage(self, stage: int, chunks: list[Chunk]) -> TitanStage:
        parts = tuple(
            StagePart(
                num_layers=chunk.num_layers,
                has_embedding=chunk.has_embedding,
                has_loss=chunk.has_loss,
            )
            for chunk in chunks
        )
        memory = _StageMemory(
            self._get_static(_merge_parts(parts)),
            [self._get_static(part).trained.trained for part in parts],
            self._count_buffer_bytes(parts),
        )
        records = [self._get_record(part) for part in parts]
        moments = list_moments(self._layout, stage, self._workload.gradient_accumulation_steps)
        points = {name: self._find_highest(name, records, moments) for name in INSTANTS}
        peaks = [
            PhasePeak("load", memory.static.loaded_bytes, {"weights": memory.static.loaded_bytes})
        ]
        peaks += [_add_peak(name, memory.resident, point[1]) for name, point in points.items()]
        reduced = memory.reducing
        if sum(reduced.values()) > peaks[-1].allocated_bytes:
            peaks[-1] = PhasePeak("backward", sum(reduced.values()), reduced)
        peaks.append(_add_peak("optimizer_step", memory.step, {}))
        busiest = max(points.values(), key=lambda point: sum(point[1].values()))
        return TitanStage(
            stage=stage,
            peaks=tuple(peaks),
            steady_bytes=memory.static.steady_bytes + memory.buffer_bytes,
            layers=tuple(part.num_layers for part in parts),
            in_flight=busiest[0],
            num_parameters=memory.static.trained.trained,
        )

    def _find_highest(
        self, name: str, records: list[PartRecord], moments: tuple[Moment, ...]
    ) -> tuple[tuple[int, ...], Parts]:
        """Return the micro-batches and the parts of a phase's highest moment."""
        highest: tuple[tuple[int, ...], Parts] = ((), {})
        retained = [sizes.evaluate(record.retained, self._values) for record in records]
        tables = max(sizes.evaluate(record.tables, self._values) for record in records)
        for moment in moments:
            if moment.kind not in _KINDS[name]:
                continue
            top = self._evaluate(name, records[moment.chunk])
            if top is None:
                continue
            waiting = sum(kept * each for kept, each in zip(retained, moment.counts, strict=True))
            waiting += self._count_pending_bytes(records, moment) + tables * (len(records) - 1)
            top["activations"] = top.get("activations", 0) + waiting - retained[moment.chunk]
            if sum(top.values()) > sum(highest[1].values()):
                highest = (moment.counts, top)
        return highest

    def _evaluate(self, name: str, record: PartRecord) -> Parts | None:
        candidates = record.peak_candidates
        points = [point for section in INSTANTS[name] for point in candidates.get(section, ())]
        if not points:
            return None
        top = max(points, key=lambda point: sizes.evaluate(point.bytes, self._values))
        parts: Parts = {}
        for category, size in top.live:
            if category.value != "gradients":
                bytes_ = sizes.evaluate(size, self._values)
                parts[category.value] = parts.get(category.value, 0) + bytes_
        return parts

    def _count_pending_bytes(self, records: list[PartRecord], moment: Moment) -> int:
        """Return the gradients that wait for those of weights.

        Each product's output has one (``distributed/pipelining/_backward.py``, ``param_groups``).
        """
        waiting = moment.waiting or (0,) * len(records)
        widths = (sizes.evaluate(record.output_gradients, self._values) for record in records)
        return sum(count * width for count, width in zip(waiting, widths, strict=True))

    def _count_buffer_bytes(self, parts: Iterable[StagePart]) -> int:
        """Return the bytes of the buffers of a step's micro-batches.

        They are made once for the run. Each has one for what it receives forward and one backward
        (``args_recv_info``, ``grad_recv_info``).
        """
        ends = sum((not part.has_embedding) + (not part.has_loss) for part in parts)
        width = self._workload.precision.compute_dtype.bytes_per_element
        hidden = sizes.per_token(self._model.spec.hidden_size * width)
        steps = self._workload.gradient_accumulation_steps
        return ends * steps * sizes.evaluate(hidden, self._values)

    def _get_record(self, part: StagePart) -> PartRecord:
        return self._records.get_or_make(
            (self._key, self._config, part), lambda: record_part(self._model, self._config, part)
        )

    def _get_static(self, part: StagePart) -> StaticMemory:
        """Return the static memory of a part alone."""
        static = self._static.get(part)
        if static is None:
            alone = flatten_pipeline(self._layout)
            workload = replace(self._workload, framework_version=None)
            setup = resolve_setup(cut_part(self._model, part), workload, alone)
            static = self._static[part] = build_static_memory(setup)
        return static


class _StageMemory:
    """Static memory of one stage while its passes run."""

    def __init__(self, static: StaticMemory, sizes_of_chunks: list[int], buffer_bytes: int) -> None:
        self.static, self.buffer_bytes = static, buffer_bytes
        self._sizes = sizes_of_chunks

    @cached_property
    def resident(self) -> Parts:
        """Bytes that are there in every pass, by part."""
        static, fsdp = self.static, self.static.setup.gathering
        assert fsdp is not None  # noqa: S101 - of FSDP2
        gathered = sum(sorted(self._sizes)[-MAX_GATHERED_CHUNKS:]) * fsdp.gather_bytes
        parts = dict(static.resident)
        parts["gradients"] = static.trained.trained * fsdp.reduce_bytes
        parts["gathered_weights"] = gathered
        parts["communication_buffers"] += self.buffer_bytes
        # A unit's gradients are there in both dtypes before they are added up.
        parts["temporaries"] = self._largest_unit * fsdp.gather_bytes
        return parts

    @cached_property
    def reducing(self) -> Parts:
        """Bytes while the last unit's gradients are reduced, by part."""
        fsdp = self.static.setup.gathering
        assert fsdp is not None  # noqa: S101 - of FSDP2
        parts = dict(self.resident)
        parts["gradients"] += self.static.states.gradients
        parts["temporaries"] = self._largest_unit * fsdp.reduce_bytes
        return parts

    @property
    def step(self) -> Mapping[str, int]:
        """Bytes at the optimizer's step, by part."""
        parts = dict(self.static.step)
        parts["communication_buffers"] += self.buffer_bytes
        return parts

    @property
    def _largest_unit(self) -> int:
        counts = self.static.model.counts
        return max(counts.largest_block, counts.outside_blocks)


def _merge_parts(parts: tuple[StagePart, ...]) -> StagePart:
    return StagePart(
        num_layers=sum(part.num_layers for part in parts),
        has_embedding=any(part.has_embedding for part in parts),
        has_loss=any(part.has_loss for part in parts),
    )


def _add_peak(name: str, resident: Mapping[str, int], added: Parts) -> PhasePeak:
    parts = dict(resident)
    for part, bytes_ in added.items():
        parts[part] = parts.get(part, 0) + bytes_
    return PhasePeak(name, sum(parts.values()), parts)
