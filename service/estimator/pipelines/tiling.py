"""Decoding of images tile by tile, and image by image.

(``AutoencoderKL.tiled_decode`` and ``decode`` of diffusers 0.42.)
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from service.estimator.pipelines.extents import Extents
from service.estimator.pipelines.logs import Kind, Log, check_size
from service.estimator.pipelines.phases import PhasePeak
from service.estimator.values.errors import InvalidInputError

_OVERLAP = Fraction(1, 4)
"""``tile_overlap_factor`` of AutoencoderKL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiles:
    """Sides of an image and of a tile, in latents."""

    height: int
    width: int
    side: int
    latent_steps: int
    """Latents of a step of the extents."""

    @property
    def is_tiled(self) -> bool:
        """Whether the image is larger than a tile."""
        return self.height > self.side or self.width > self.side

    def iterate(self) -> Iterator[tuple[int, int]]:
        """Yield each tile's height and width."""
        stride = int(self.side * (1 - _OVERLAP))
        for top in range(0, self.height, stride):
            for left in range(0, self.width, stride):
                yield min(self.side, self.height - top), min(self.side, self.width - left)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Segment:
    """Bytes of a part of a pass, beyond those before it."""

    before: int
    peak: int
    bound: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """A decoding before the decoder, in it, and after it."""

    head: _Segment
    decoder: _Segment
    tail: _Segment


def find_sliced_peak(
    logs: tuple[Log, Log], extents: Extents, tiles: Tiles | None, *, slices: bool
) -> PhasePeak:
    """Return the highest bytes of a decoding, without weights.

    ``logs`` are of one image and of several. With ``slices`` images are decoded one by one, with
    ``tiles`` tile by tile.
    """
    one, several = logs
    batch = 1 if slices else extents.batch
    log = one if extents.batch == 1 else several
    parts = _cut(log, extents.batch, Fraction(extents.height), Fraction(extents.width))
    inner = one if batch == 1 else several
    decoded, inner_peak, inner_bound = _decode(inner, batch, extents, tiles)
    count = extents.batch // batch
    image = parts.decoder.end
    start = parts.decoder.before
    peak = max(parts.head.peak, start + (count - 1) * decoded + inner_peak)
    bound = max(parts.head.bound, start + (count - 1) * decoded + inner_bound)
    if count > 1:
        peak = max(peak, start + 2 * image)
    peak = max(peak, parts.tail.peak)
    return PhasePeak(
        peak_bytes=peak, bound_bytes=max(bound, peak), weight_bytes=0, end_bytes=parts.tail.end
    )


def _decode(log: Log, batch: int, extents: Extents, tiles: Tiles | None) -> tuple[int, int, int]:
    """Return a decoder's output bytes, its peak, and that with workspaces."""
    parts = _cut(log, batch, Fraction(extents.height), Fraction(extents.width)).decoder
    if tiles is None or not tiles.is_tiled:
        return parts.end, parts.peak - parts.before, parts.bound - parts.before
    decoded_bytes = peak = bound = 0
    segments: dict[tuple[int, int], _Segment] = {}
    for size in tiles.iterate():
        if size not in segments:
            height, width = (Fraction(side, tiles.latent_steps) for side in size)
            segments[size] = _cut(log, batch, height, width).decoder
        part = segments[size]
        peak = max(peak, decoded_bytes + part.peak - part.before)
        bound = max(bound, decoded_bytes + part.bound - part.before)
        decoded_bytes += part.end
    # Rows of cropped tiles are joined, then the rows, while all tiles are still there.
    peak = max(peak, decoded_bytes + 2 * parts.end)
    return parts.end, peak, max(bound, peak)


def _cut(log: Log, batch: int, height: Fraction, width: Fraction) -> _Parts:
    """Return a pass's parts at a size, in fractions of steps."""
    sizes = [_evaluate(log, kind, (batch, height, width)) for kind in range(len(log.kinds))]
    decoder_modules = [number for number, name in enumerate(log.modules) if name.startswith("vae.")]
    outputs = [n for n, name in enumerate(log.modules) if name.endswith("decoder.conv_out")]
    if not decoder_modules or not outputs:
        message = "its recording names no decoder's modules, by which an image is cut into tiles"
        raise InvalidInputError(message, field="model")
    first, last = decoder_modules[0], outputs[0]
    starts, ends, live, peaks, bounds = [0], [], 0, [0, 0, 0], [0, 0, 0]
    part = 0
    for what, number, kind in log.iterate():
        if what is Kind.ENTER and number == first and part == 0:
            starts.append(live)
            part = 1
            ends.append(live)
        elif what is Kind.LEAVE and number == last and part == 1:
            ends.append(live)
            starts.append(live)
            part = 2
        elif what is Kind.ALLOCATE and kind in log.workspaces:
            bounds[part] = max(bounds[part], live + sizes[kind])
        elif what is Kind.ALLOCATE:
            live += sizes[kind]
        elif what is Kind.FREE and kind not in log.workspaces:
            live -= sizes[kind]
        peaks[part] = max(peaks[part], live)
    ends.append(live)
    head, decoder, tail = (
        _Segment(before=start, peak=peak, bound=max(bound, peak), end=end)
        for start, peak, bound, end in zip(starts, peaks, bounds, ends, strict=True)
    )
    output = _find_output(log, sizes, last)
    return _Parts(
        head=head,
        decoder=_Segment(before=decoder.before, peak=decoder.peak, bound=decoder.bound, end=output),
        tail=tail,
    )


def _find_output(log: Log, sizes: list[int], last: int) -> int:
    """Return the bytes that the decoder's last convolution makes."""
    output, runs = 0, False
    for what, number, kind in log.iterate():
        if what is Kind.ENTER and number == last:
            runs = True
        elif what is Kind.LEAVE and number == last:
            break
        elif runs and what is Kind.ALLOCATE and kind not in log.workspaces:
            output = sizes[kind]
    return output


def _evaluate(log: Log, kind: int, extents: tuple[int, Fraction, Fraction]) -> int:
    batch, height, width = extents
    total = Fraction(0)
    for powers, coefficient in log.kinds[kind]:
        total += coefficient * batch ** powers[0] * height ** powers[1] * width ** powers[2]
    return check_size(int(total))
