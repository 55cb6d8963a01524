"""Tiles of a VAE, decoded as ``tiled_decode`` of diffusers 0.42 does."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from service.estimator.pipelines.extents import Extents
from worker.probes.pipelines.drives import Drive
from worker.probes.pipelines.fitting import fit_sizes
from worker.probes.pipelines.passes import fit_log, fit_peaks, to_rows
from worker.probes.pipelines.tracing import Trace, trace

_BOXES = tuple(
    Extents(batch=b, height=h, width=w, frames=f)
    for b, h, w, f in (
        (2, 8, 12, 2),
        (3, 12, 8, 3),
        (2, 16, 10, 4),
        (4, 8, 22, 5),
        (3, 18, 12, 2),
        (2, 14, 16, 5),
        (5, 10, 12, 3),
        (2, 20, 14, 4),
        (3, 8, 10, 6),
        (4, 12, 18, 2),
        (2, 22, 8, 3),
        (2, 10, 20, 5),
    )
)
"""Tiles in latents that determine the sizes; each has a whole multiple of eight latents."""
_PROOF = Extents(batch=3, height=26, width=12, frames=5)


def _decode_whole(vae: Any, latents: torch.Tensor) -> torch.Tensor:  # noqa: ANN401 - a VAE of diffusers
    """Decode a tile as AutoencoderKLHunyuanVideo does."""
    decoded: torch.Tensor = vae.decoder(vae.post_quant_conv(latents))
    return decoded


def _decode_timed(vae: Any, latents: torch.Tensor) -> torch.Tensor:  # noqa: ANN401 - a VAE of diffusers
    """Decode a tile as AutoencoderKLLTXVideo does."""
    decoded: torch.Tensor = vae.decoder(latents, None)
    return decoded


def _decode_by_frame(vae: Any, latents: torch.Tensor) -> torch.Tensor:  # noqa: ANN401 - a VAE of diffusers
    """Decode a tile frame by frame, as AutoencoderKLWan and AutoencoderKLQwenImage do."""
    vae.clear_cache()
    time = []
    for frame in range(latents.shape[2]):
        vae._conv_idx = [0]  # noqa: SLF001 - the VAE's own step
        part = latents if latents.shape[2] == 1 else latents[:, :, frame : frame + 1]
        tile = vae.post_quant_conv(part)
        arguments: dict[str, Any] = {"feat_cache": vae._feat_map, "feat_idx": vae._conv_idx}  # noqa: SLF001 - the VAE's own step
        if type(vae).__name__ == "AutoencoderKLWan":
            arguments["first_chunk"] = frame == 0
        time.append(vae.decoder(tile, **arguments))
    return torch.cat(time, dim=2)


TILED: Mapping[str, Callable[[Any, torch.Tensor], torch.Tensor]] = {
    "AutoencoderKLHunyuanVideo": _decode_whole,
    "AutoencoderKLLTXVideo": _decode_timed,
    "AutoencoderKLQwenImage": _decode_by_frame,
    "AutoencoderKLWan": _decode_by_frame,
}
"""VAEs of videos whose tiles are recorded."""


def record_tile(vae: Any, drive: Drive, dtype: torch.dtype, *, single: bool) -> dict[str, Any]:  # noqa: ANN401 - a VAE of diffusers
    """Return the pass of one tile, its extents in latents."""
    run = _make_run(vae, dtype)
    if drive.frame_step and TILED[type(vae).__name__] is _decode_by_frame:
        return fit_peaks(run, single=single)
    boxes = [_set_box(box, drive, single=single) for box in _BOXES]
    return fit_log(run, boxes, [_set_box(_PROOF, drive, single=single)])


def record_output(vae: Any, drive: Drive, dtype: torch.dtype) -> list[Any]:  # noqa: ANN401 - a VAE of diffusers
    """Return the bytes of a decoded tile as a polynomial's rows."""
    decode = TILED[type(vae).__name__]
    boxes = [_set_box(box, drive, single=False) for box in _BOXES]
    sizes = [decode(vae, _make_tile(vae, box, dtype)).nbytes for box in boxes]
    return to_rows(fit_sizes(sizes, boxes))


def _make_run(vae: Any, dtype: torch.dtype) -> Callable[[Extents], Trace]:  # noqa: ANN401 - a VAE of diffusers
    decode = TILED[type(vae).__name__]

    def run(box: Extents) -> Trace:
        latents = _make_tile(vae, box, dtype)

        def call(end: Callable[[], None]) -> object:
            decoded = decode(vae, latents)
            end()
            return decoded

        traced = trace({"vae": vae}, call, {"vae.decoder"})
        if hasattr(vae, "clear_cache"):
            vae.clear_cache()
        return traced

    return run


def _make_tile(vae: Any, box: Extents, dtype: torch.dtype) -> torch.Tensor:  # noqa: ANN401 - a VAE of diffusers
    channels = vae.config.get("z_dim") or vae.config.latent_channels
    return torch.zeros((box.batch, channels, box.frames, box.height, box.width), dtype=dtype)


def _set_box(box: Extents, drive: Drive, *, single: bool) -> Extents:
    return Extents(
        batch=1 if single else box.batch,
        height=box.height,
        width=box.width,
        frames=box.frames if drive.frame_step else 1,
    )
