"""Peak bytes of each phase, and their corrections by measurements.

A peak is given by part, or in sum alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from service.estimator.values.corrections import NO_CORRECTION, Corrections, check_plausible

Parts = dict[str, int]
M = TypeVar("M", "PhasePeak", "PhasePeakBytes")


@dataclass(frozen=True, slots=True)
class PhasePeak:
    """Highest allocated bytes of an instant, by part."""

    name: str
    allocated_bytes: int
    parts: Parts

    @property
    def activations(self) -> int:
        """Bytes that count under activations."""
        return self.parts.get("activations", 0)

    def sum_up(self) -> "PhasePeakBytes":
        """Return the peak without its other parts."""
        gradients = self.parts.get("gradients", 0)
        return PhasePeakBytes(self.name, self.allocated_bytes, gradients, self.activations)

    def with_more(self, added: int) -> "PhasePeak":
        """Return the peak with more bytes, which count under activations."""
        parts = self.parts | {"activations": self.activations + added}
        return PhasePeak(name=self.name, allocated_bytes=self.allocated_bytes + added, parts=parts)


class PhasePeakBytes(NamedTuple):
    """Phase peak without its parts.

    A search needs the gradients and activations of its bytes alone.
    """

    name: str
    allocated_bytes: int
    gradients: int
    activations: int

    def with_more(self, added: int) -> "PhasePeakBytes":
        """Return the peak with more bytes, which count under activations."""
        return PhasePeakBytes(
            self.name, self.allocated_bytes + added, self.gradients, self.activations + added
        )


def correct_phase_peaks(
    peaks: Sequence[M], corrections: Corrections | None, num_tokens: int
) -> Sequence[M]:
    """Return the phase peaks of a step with their corrections.

    The highest is raised to the bytes that a smaller run needed at least. Raises
    ImplausibleCorrectionError where the corrections make the peak implausible.
    """
    if corrections is None:
        return peaks
    corrected_peaks = [correct_phase_peak(moment, corrections, num_tokens) for moment in peaks]
    highest = max(corrected_peaks, key=lambda moment: moment.allocated_bytes)
    corrected_bytes = max(_apply_correction(moment, corrections, num_tokens) for moment in peaks)
    check_plausible(
        corrections,
        "allocated bytes",
        max(moment.allocated_bytes for moment in peaks),
        corrected_bytes,
    )
    missing = corrections.at_least_bytes - highest.allocated_bytes
    if missing > 0:
        corrected_peaks[corrected_peaks.index(highest)] = highest.with_more(missing)
    return corrected_peaks


def correct_phase_peak(peak: M, corrections: Corrections | None, num_tokens: int) -> M:
    """Return the phase peak with its correction.

    It counts under activations, which cannot fall below zero.
    """
    correction = corrections.instants.get(peak.name) if corrections is not None else None
    if correction is None:
        return peak
    return peak.with_more(
        max(correction.compute_bytes(num_tokens, peak.allocated_bytes), -peak.activations)
    )


def _apply_correction(
    peak: PhasePeak | PhasePeakBytes, corrections: Corrections, num_tokens: int
) -> int:
    """Return the corrected bytes of a phase peak, without a lower limit.

    They may be less than the bytes of its weights alone.
    """
    correction = corrections.instants.get(peak.name, NO_CORRECTION)
    return peak.allocated_bytes + correction.compute_bytes(num_tokens, peak.allocated_bytes)
