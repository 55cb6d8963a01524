"""Tiles of videos in space and time.

(``tiled_decode`` and ``_temporal_tiled_decode`` of diffusers 0.42, ``models/autoencoders``.)
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from service.estimator.pipelines.extents import Extents
from service.estimator.pipelines.logs import Log, Peaks, Polynomial, check_size, evaluate
from service.estimator.pipelines.phases import PhasePeak, find_peak, find_video_peak
from service.estimator.pipelines.recording import RecordedComponent
from service.estimator.pipelines.residence import Residence

_NOTHING = Residence(by_module={})


@dataclass(frozen=True, slots=True, kw_only=True)
class _TiledVae:
    """Tiles of a VAE in pixels and frames, as ``__init__`` sets them."""

    side: int
    stride: int
    ratio_field: str
    ratio: int
    """Pixels of a latent's side where the config's field does not say them."""
    frames: int = 0
    """Latent frames of a tile beyond the first; 0 where time is not cut."""
    frame_stride: int = 0
    copies: int = 2
    """Videos that are made of the tiles: joined rows, then all, then what clamps it."""
    keeps_last: bool = False
    """Whether the frames of the last tile are still named while tiles are joined."""


_VAES: Mapping[str, _TiledVae] = {
    "AutoencoderKLHunyuanVideo": _TiledVae(
        side=256,
        stride=192,
        ratio_field="spatial_compression_ratio",
        ratio=8,
        frames=4,
        frame_stride=3,
    ),
    "AutoencoderKLLTXVideo": _TiledVae(
        side=512, stride=448, ratio_field="spatial_compression_ratio", ratio=32
    ),
    "AutoencoderKLQwenImage": _TiledVae(
        side=256, stride=192, ratio_field="scale_factor_spatial", ratio=8, keeps_last=True
    ),
    "AutoencoderKLWan": _TiledVae(
        side=256, stride=192, ratio_field="scale_factor_spatial", ratio=8, copies=3, keeps_last=True
    ),
}


def has_tiles(vae: RecordedComponent) -> bool:
    """Return whether a VAE's tiles are those of videos."""
    return vae.class_name in _VAES


def cuts_time(vae: RecordedComponent) -> bool:
    """Return whether a VAE decodes long videos in parts, tiled or not.

    (``use_framewise_decoding`` of AutoencoderKLHunyuanVideo.)
    """
    return has_tiles(vae) and bool(_VAES[vae.class_name].frames)


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoTiles:
    """Tiles of a decoding, with one tile's pass."""

    vae: RecordedComponent
    single: Log | Peaks
    several: Log | Peaks
    output: Polynomial
    """Bytes of a decoded tile by its latents."""
    latent_bytes: int
    """Bytes of one element of the latents."""
    is_tiled: bool
    slices: bool

    def to_latents(self, extents: Extents, pixel_step: int) -> Extents:
        """Return a call's extents in latents."""
        side = pixel_step // self._ratio
        return Extents(
            batch=extents.batch,
            height=extents.height * side,
            width=extents.width * side,
            frames=extents.frames,
        )

    def splits(self, latents: Extents) -> bool:
        """Return whether anything is decoded in parts at this size."""
        sliced = self.slices and latents.batch > 1
        return sliced or self._cuts_space(latents) or self._cuts_frames(latents)

    def find_peak(self, latents: Extents, residence: Residence) -> PhasePeak:
        """Return the highest bytes of a decoding, with its latents."""
        weights = sum(residence.constant) + max(map(sum, residence.by_module.values()), default=0)
        config = self.vae.config
        channels = config.get("z_dim") or config.get("latent_channels")
        assert isinstance(channels, int)  # noqa: S101 - of a recorded VAE
        pixels = latents.batch * latents.frames * latents.height * latents.width
        stored = check_size(channels * pixels * self.latent_bytes)
        video, peak, bound = self._decode_batch(latents)
        # What is shown is halved, shifted and clamped beside the video itself.
        peak = max(peak, 3 * video)
        return PhasePeak(
            peak_bytes=stored + peak + weights,
            bound_bytes=stored + max(bound, peak) + weights,
            weight_bytes=weights,
            end_bytes=0,
        )

    @property
    def _kind(self) -> _TiledVae:
        return _VAES[self.vae.class_name]

    @property
    def _ratio(self) -> int:
        ratio = self.vae.config.get(self._kind.ratio_field)
        return ratio if isinstance(ratio, int) and ratio else self._kind.ratio

    @property
    def _side(self) -> int:
        return max(self._kind.side // self._ratio, 1)

    def _cuts_space(self, latents: Extents) -> bool:
        return self.is_tiled and max(latents.height, latents.width) > self._side

    def _cuts_frames(self, latents: Extents) -> bool:
        return 0 < self._kind.frames < latents.frames

    def _decode_batch(self, latents: Extents) -> tuple[int, int, int]:
        """Return a video's bytes, the highest bytes, and those with workspaces."""
        if not (self.slices and latents.batch > 1):
            return self._decode(latents)
        video, peak, bound = self._decode(replace(latents, batch=1))
        earlier = (latents.batch - 1) * video
        videos = latents.batch * video
        return videos, max(earlier + peak, 2 * videos), earlier + bound

    def _decode(self, latents: Extents) -> tuple[int, int, int]:
        """Decode part after part of a video's time."""
        if not self._cuts_frames(latents):
            return self._decode_space(latents)
        stored = peak = bound = 0
        for start in range(0, latents.frames, self._kind.frame_stride):
            frames = min(self._kind.frames + 1, latents.frames - start)
            part, part_peak, part_bound = self._decode_space(replace(latents, frames=frames))
            peak, bound = max(peak, stored + part_peak), max(bound, stored + part_bound)
            stored += part
        video = self._price(latents)
        return video, max(peak, stored + video), bound

    def _decode_space(self, latents: Extents) -> tuple[int, int, int]:
        """Decode tile after tile of a picture's area, then join them."""
        if not self._cuts_space(latents):
            part = self._run(latents)
            return self._price(latents), part.peak_bytes, part.bound_bytes
        stored = peak = bound = last = 0
        passes: dict[Extents, PhasePeak] = {}
        for tile in self._iterate(latents):
            if tile not in passes:
                passes[tile] = self._run(tile)
            part = passes[tile]
            # A picture's last tile is still named while the next one is decoded.
            named = stored + (last if self._kind.keeps_last and latents.frames == 1 else 0)
            peak, bound = max(peak, named + part.peak_bytes), max(bound, named + part.bound_bytes)
            last = self._price(tile)
            stored += last
        video = self._price(latents)
        joined = stored + self._kind.copies * video + (last if self._kind.keeps_last else 0)
        return video, max(peak, joined), bound

    def _iterate(self, latents: Extents) -> Iterator[Extents]:
        """Yield each tile of a picture's area."""
        side, stride = self._side, max(self._kind.stride // self._ratio, 1)
        for top in range(0, latents.height, stride):
            for left in range(0, latents.width, stride):
                height, width = min(side, latents.height - top), min(side, latents.width - left)
                yield replace(latents, height=height, width=width)

    def _run(self, tile: Extents) -> PhasePeak:
        recorded = self.single if tile.batch == 1 else self.several
        if isinstance(recorded, Peaks):
            return find_video_peak(recorded, tile, _NOTHING)
        # A tile of one frame runs fewer operations than one of two.
        fewest = 2 if self._kind.frames else tile.frames
        return find_peak(recorded, replace(tile, frames=max(tile.frames, fewest)), _NOTHING)

    def _price(self, tile: Extents) -> int:
        return check_size(evaluate(self.output, tile))
