"""Writes ``counted.jsonl``: what transformers' processors make of empty images, videos and audio.

``python -m tests.data.processors.write_processors`` where transformers 5.23, torchvision and Pillow
are installed. Each line is one item: the placeholders that take features, all tokens that the
processor writes, and the pieces that the encoder reads, counted in what the processor returned. A
tokenizer is replaced by one character a special token.
"""

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.data.processors.clip_counts import AUDIO, VIDEOS
from tests.data.processors.image_counts import IMAGES, PAN_AND_SCAN, count_gemma3
from tests.data.processors.stubs import Counted

FILE = Path(__file__).parent / "counted.jsonl"
SIDES = [(640, 480), (480, 640), (1024, 768), (224, 224), (1920, 1080), (300, 1700), (336, 336)]


def list_lines(
    sides: list[tuple[int, int]], clips: int, sounds: int
) -> Iterator[dict[str, object]]:
    """Yield the counts of every type."""
    rng = random.Random(5)  # noqa: S311 - sizes of samples
    cases = dict(IMAGES)
    scan: Any = ({}, PAN_AND_SCAN, count_gemma3(**PAN_AND_SCAN))
    for name, (config, fields, count) in [*cases.items(), ("gemma3", scan)]:
        for width, height in sides:
            item = {"width": width, "height": height}
            yield _build_line(name, "images", item, count(width, height), config, fields)
    for name, count_video in VIDEOS.items():
        for _ in range(clips):
            frames, width, height = rng.randint(2, 40), rng.randint(64, 900), rng.randint(64, 700)
            item = {"frames": frames, "width": width, "height": height}
            yield _build_line(name, "videos", item, count_video(frames, width, height))
    for name, count_audio in AUDIO.items():
        for _ in range(sounds):
            samples = rng.randint(8_000, 700_000)
            item_s = {"seconds": samples / 16_000}
            yield _build_line(name, "audio", item_s, count_audio(samples))


def _build_line(
    name: str,
    kind: str,
    item: dict[str, Any],
    counted: Counted,
    config: dict[str, object] | None = None,
    fields: dict[str, object] | None = None,
) -> dict[str, object]:
    features, tokens, pieces = counted
    return {
        "config": {"model_type": name, **(config or {})},
        kind: item,
        "processor": fields or {},
        "features": features,
        "tokens": tokens,
        "pieces": pieces,
    }


def main() -> None:
    """Write the samples, or random sizes: ``FILE NUMBER``."""
    path, sides, few = FILE, SIDES, 4
    if len(sys.argv) > 1:
        path, few = Path(sys.argv[1]), int(sys.argv[2])
        rng = random.Random(few)  # noqa: S311 - sizes of samples
        sides = [(rng.randint(30, 2600), rng.randint(30, 2600)) for _ in range(few)]
    lines = [json.dumps(line) for line in list_lines(sides, few, few)]
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
