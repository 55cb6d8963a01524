"""Phases of a pipeline's call, with their weights and passes."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import gcd

from service.estimator.pipelines.extents import Extents
from service.estimator.pipelines.logs import Log, Peaks, Polynomial, evaluate
from service.estimator.pipelines.passes import check_loops, find_pass, get_stored_format
from service.estimator.pipelines.phases import PhasePeak, find_peak, find_video_peak
from service.estimator.pipelines.recording import RecordedComponent, RecordedPipeline
from service.estimator.pipelines.residence import Residence, make_residence
from service.estimator.pipelines.sizes import read_extents, read_tiles
from service.estimator.pipelines.tiling import find_sliced_peak
from service.estimator.pipelines.video_tiles import VideoTiles, cuts_time, has_tiles
from service.estimator.pipelines.workload import GenerateWorkload, PipelineOffload
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import NotModelledError
from service.estimator.values.units import ceil_div

_FEWEST = 2
"""Latent frames of a video: a single one runs fewer operations."""
TEXT, LOOP, DECODING = "text_encoding", "denoising", "decoding"


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One part of a call, with its resident weights and peak."""

    name: str
    component: RecordedComponent
    dtype: DType
    recorded: Log | Peaks
    extents: Extents
    residence: Residence
    idle: tuple[tuple[RecordedComponent, DType], ...]
    """Components whose weights are on the GPU without a part in it."""
    held_bytes: int
    """Embeddings and latents of the call that no pass of its own made."""
    peak: PhasePeak

    @property
    def instant(self) -> str:
        """Its name among the instants: each text encoder has one."""
        return self.component.name if self.name == TEXT else self.name

    @property
    def idle_bytes(self) -> int:
        """Bytes of weights on the GPU that have no part in it."""
        return sum(component.count_bytes(dtype) for component, dtype in self.idle)

    @property
    def allocated_bytes(self) -> int:
        """Highest bytes of its tensors."""
        return self.peak.peak_bytes + self.idle_bytes + self.held_bytes

    @property
    def bound_bytes(self) -> int:
        """The same with the most that workspaces of convolutions take."""
        return self.peak.bound_bytes + self.idle_bytes + self.held_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A question about a pipeline, its extents known."""

    pipeline: RecordedPipeline
    workload: GenerateWorkload
    extents: Extents

    def list_phases(self) -> list[Phase]:
        """Return the phases in their order."""
        decoding = [self._make_decoding()] if self.workload.decodes else []
        return [*self._iterate_encoders(), *self._iterate_loops(), *decoding]

    def get_dtype(self, component: RecordedComponent) -> DType:
        """Return the format of a component while it works."""
        workload = self.workload
        if component.name in self.pipeline.prompts:
            return workload.text_encoder_dtype
        if component.name != "vae":
            return workload.dtype
        return DType.FP32 if self.upcasts else workload.vae_dtype

    @property
    def upcasts(self) -> bool:
        """Whether the decoder runs in fp32 although it was loaded in fp16.

        (``needs_upcasting`` of StableDiffusionXLPipeline.)
        """
        return (
            self.pipeline.class_name == "StableDiffusionXLPipeline"
            and self.workload.vae_dtype is DType.FP16
            and bool(self.pipeline.components["vae"].config.get("force_upcast"))
        )

    def _iterate_encoders(self) -> Iterator[Phase]:
        for name, prompts in self.pipeline.prompts.items():
            if name not in self.pipeline.components:
                continue
            component = self.pipeline.components[name]
            tokens = prompts.max_tokens or self.extents.tokens + prompts.template_tokens
            extents = Extents(
                batch=self.workload.num_prompts, height=1, width=1, frames=1, tokens=tokens
            )
            yield self._make_phase(TEXT, component, name, extents, held_bytes=0)

    def _iterate_loops(self) -> Iterator[Phase]:
        pipeline, workload = self.pipeline, self.workload
        guided = "guided" if workload.guidance else "plain"
        single = "one" if workload.batch == 1 else "several"
        check_loops(pipeline, guided, single)
        inputs = self._price("inputs", guided)
        for component in pipeline.denoisers[:1]:
            name = f"loop/{guided}/{single}"
            yield self._make_phase(LOOP, component, name, self._loop_extents, held_bytes=inputs)

    @property
    def _loop_extents(self) -> Extents:
        extents, multiple = self.extents, self.pipeline.token_multiple
        # Rows are added until the picture's tokens are a whole multiple.
        rows = multiple // gcd(multiple, extents.width)
        tokens = extents.tokens + self.pipeline.fixed_tokens
        return replace(
            extents,
            height=ceil_div(extents.height, rows) * rows,
            tokens=ceil_div(tokens, multiple) * multiple,
        )

    def _price(self, name: str, guided: str = "") -> int:
        """Return bytes of the loop's inputs, in its denoiser's format."""
        polynomial: Polynomial = self.pipeline.inputs[guided or name]
        size = evaluate(polynomial, self._loop_extents)
        return size * self.workload.dtype.bytes_per_element // DType.BF16.bytes_per_element

    def _make_decoding(self) -> Phase:
        workload = self.workload
        component = self.pipeline.components["vae"]
        single = "one" if workload.batch == 1 else "several"
        recorded_name = "tile/one" if self.video_tiles else f"decode/{single}"
        loop = next(self._iterate_loops())
        inputs = loop.held_bytes + loop.peak.end_bytes - self._price("latents")
        return self._make_phase(
            DECODING, component, recorded_name, self.extents, held_bytes=max(inputs, 0)
        )

    @property
    def video_tiles(self) -> VideoTiles | None:
        """The tiles of a video's decoding, if it is split."""
        vae, workload = self.pipeline.components["vae"], self.workload
        in_parts = workload.vae_tiling or workload.vae_slicing or cuts_time(vae)
        if not (workload.decodes and in_parts and has_tiles(vae)):
            return None
        dtype = self.get_dtype(vae)
        stored = get_stored_format(vae, dtype)
        tiles = VideoTiles(
            vae=vae,
            single=find_pass(self.pipeline, "tile/one", vae, dtype),
            several=find_pass(self.pipeline, "tile/several", vae, dtype),
            output=self.pipeline.tile_outputs[stored],
            latent_bytes=dtype.bytes_per_element,
            is_tiled=workload.vae_tiling,
            slices=workload.vae_slicing,
        )
        undivided = f"decode/one/{stored}" in self.pipeline.passes
        return None if undivided and not tiles.splits(self._to_latents(tiles)) else tiles

    def _to_latents(self, tiles: VideoTiles) -> Extents:
        return tiles.to_latents(self.extents, self.pipeline.pixel_step)

    def _make_phase(
        self,
        name: str,
        component: RecordedComponent,
        recorded_name: str,
        extents: Extents,
        *,
        held_bytes: int,
    ) -> Phase:
        dtype = self.get_dtype(component)
        recorded = find_pass(self.pipeline, recorded_name, component, dtype)
        residence = make_residence(
            component,
            dtype,
            self.workload.offloading,
            recorded.modules if isinstance(recorded, Log) else (),
            blocks_per_group=self.workload.blocks_per_group,
            streams=self.workload.offload_stream,
        )
        return Phase(
            name=name,
            component=component,
            dtype=dtype,
            recorded=recorded,
            extents=extents,
            residence=residence,
            idle=self._list_idle(component),
            held_bytes=held_bytes,
            peak=self._find_peak(recorded, extents, residence, decodes=name == DECODING),
        )

    def _find_peak(
        self, recorded: Log | Peaks, extents: Extents, residence: Residence, *, decodes: bool
    ) -> PhasePeak:
        if decodes and self.pipeline.makes_video:
            fewest = recorded.min_frames if isinstance(recorded, Peaks) else _FEWEST
            self._check_frames(fewest, extents)
        if decodes and (tiles := self.video_tiles):
            return tiles.find_peak(self._to_latents(tiles), residence)
        if isinstance(recorded, Peaks):
            return find_video_peak(recorded, extents, residence)
        if decodes and self.splits_decoding:
            return self._find_sliced(recorded, extents, residence)
        return find_peak(recorded, extents, residence)

    @property
    def splits_decoding(self) -> bool:
        """Whether tiles or slices change the decoding of these sizes at all."""
        if not self.workload.decodes:
            return False
        if has_tiles(self.pipeline.components["vae"]):
            return self.video_tiles is not None
        tiles = read_tiles(self.pipeline, self.workload)
        slices = self.workload.vae_slicing and self.extents.batch > 1
        return slices or (tiles is not None and tiles.is_tiled)

    def _find_sliced(self, recorded: Log, extents: Extents, residence: Residence) -> PhasePeak:
        dtype = self.get_dtype(self.pipeline.components["vae"])
        component = self.pipeline.components["vae"]
        one = find_pass(self.pipeline, "decode/one", component, dtype)
        assert isinstance(one, Log)  # noqa: S101 - of a decoder of images
        sliced = find_sliced_peak(
            (one, recorded),
            extents,
            read_tiles(self.pipeline, self.workload),
            slices=self.workload.vae_slicing and extents.batch > 1,
        )
        weights = sum(residence.constant) + max(map(sum, residence.by_module.values()), default=0)
        return PhasePeak(
            peak_bytes=sliced.peak_bytes + weights,
            bound_bytes=sliced.bound_bytes + weights,
            weight_bytes=weights,
            end_bytes=sliced.end_bytes,
        )

    def _check_frames(self, min_frames: int, extents: Extents) -> None:
        if extents.frames < min_frames:
            fewest = (min_frames - 1) * self.pipeline.frame_step + 1
            message = f"a video of {self.workload.num_frames} frames"
            raise NotModelledError(
                message, field="workload.num_frames", modelled=[f"{fewest} frames and more"]
            )

    def _list_idle(self, working: RecordedComponent) -> tuple[tuple[RecordedComponent, DType], ...]:
        if self.workload.offloading is not PipelineOffload.NONE:
            return ()
        return tuple(
            (component, self.get_loaded_dtype(component))
            for component in self.pipeline.components.values()
            if component is not working
        )

    def get_loaded_dtype(self, component: RecordedComponent) -> DType:
        """Return the format that a component was loaded in."""
        return self.workload.vae_dtype if component.name == "vae" else self.get_dtype(component)


def make_call(pipeline: RecordedPipeline, workload: GenerateWorkload) -> Call:
    """Return a call whose sizes the pipeline takes."""
    return Call(pipeline=pipeline, workload=workload, extents=read_extents(pipeline, workload))
