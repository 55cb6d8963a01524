"""The largest batch that is said to fit, beside the largest that really ran."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from statistics import mean
from typing import Any

from service.cli.offline.ceiling import ceiling
from tests.accuracy.real.rows import GPU, SWEEPS
from tests.accuracy.real.scoring import find_device

_ALLOCATORS = {"default": "default", "expandable_segments": "expandable_segments"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundScore:
    """A ceiling, the largest batch that ran, and the smallest that did not, if one was tried."""

    name: str
    gpu: str
    model: str
    answer: int
    ran: int
    failed: int | None

    @property
    def share(self) -> float:
        """How much of what ran the ceiling allows, at most one."""
        return min(self.answer / self.ran, 1.0)

    @property
    def is_judged(self) -> bool:
        """Whether it is known that the answer is too much or too little."""
        return self.failed is not None or self.answer <= self.ran

    @property
    def is_false_fit(self) -> bool:
        """Whether a batch is said to fit that ran out of memory."""
        return self.failed is not None and self.answer >= self.failed


@cache
def score_bounds() -> tuple[BoundScore, ...]:
    """Ask for every recorded ceiling."""
    return tuple(
        _score(json.loads(line), name)
        for gpu, name in SWEEPS.items()
        for line in (GPU / f"bound_{gpu.lower()}.jsonl").read_text().splitlines()
    )


def compute_mean_share(scores: tuple[BoundScore, ...]) -> float:
    """Return the mean share of what ran, of ceilings that are judged."""
    return mean(score.share for score in scores if score.is_judged)


def _score(row: Mapping[str, Any], gpu: str) -> BoundScore:
    case = row["case"]
    answer = ceiling(_write_body(case, find_device(gpu).name), None)
    return BoundScore(
        name=case["name"],
        gpu=gpu,
        model=case["model"],
        answer=answer["value"] or 0,
        ran=row["lo"],
        failed=row["hi"],
    )


def _write_body(case: Mapping[str, Any], gpu: str) -> dict[str, Any]:
    words: dict[str, Any] = dict(case["w"])
    serves = words.get("task") == "serve"
    if serves:
        words = {
            "task": "serve",
            "engine": "transformers",
            "prompt_tokens": words["prompt"],
            # The loop decodes so many tokens after the one of its prefill.
            "output_tokens": words["new"] + 1,
        }
    return {
        "model": case["model"],
        "gpu": gpu,
        "maximize": "num_sequences" if serves else "micro_batch_size",
        "workload": {"task": "train", **words, "allocator": _ALLOCATORS[case["alloc"]]},
        "layout": {},
    }
