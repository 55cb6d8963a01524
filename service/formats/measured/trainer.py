"""Hugging Face Trainer's ``train_results.json`` and ``all_results.json``.

They are written with ``--skip_memory_metrics False``.

The tracker reports differences (transformers/trainer_utils.py, TrainerMemoryTracker): what was
allocated before, what stages added, and by how much the peak of training exceeded its end. Together
they are ``torch.cuda.max_memory_allocated`` of GPU 0.
"""

from collections.abc import Mapping

from service.formats.measured.reading import (
    Format,
    MeasuredFormatError,
    Parsed,
    Place,
    Quantity,
    Reading,
)
from service.formats.measured.text import format_value

PEAKED = "train_mem_gpu_peaked_delta"
PARTS = ("before_init_mem_gpu", "init_mem_gpu_alloc_delta", "train_mem_gpu_alloc_delta", PEAKED)
BETWEEN = (
    "what was allocated between the Trainer's start and the training's is in none of its numbers: "
    "the peak is exact when the model was built before the Trainer or by it"
)


def parse_trainer(document: Mapping[str, object]) -> Parsed:
    """Return the peak of the training."""
    missing = [name for name in PARTS if name not in document]
    if missing:
        message = (
            f"has no {', '.join(missing)}; expected a first training's results with "
            "--skip_memory_metrics False"
        )
        raise MeasuredFormatError(message)
    parts = [document[name] for name in PARTS]
    for name, part in zip(PARTS, parts, strict=True):
        if isinstance(part, bool) or not isinstance(part, int):
            message = f"{name} is {format_value(part)}; expected bytes as an integer"
            raise MeasuredFormatError(message)
    peak = sum(part for part in parts if isinstance(part, int))
    if peak < 0:
        message = f"{' + '.join(PARTS)} is {peak}; expected the bytes of a peak"
        raise MeasuredFormatError(message)
    reading = Reading(
        quantity=Quantity.ALLOCATED, value=peak, low=peak, high=peak, place=Place(gpu="0")
    )
    return Parsed(format=Format.TRAINER, readings=(reading,), notes=(BETWEEN,))
