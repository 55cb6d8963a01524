"""Phases of pipelines against whole traced runs, at sizes that made no recording.

``tests/data/truth/pipelines/peaks.jsonl`` has the highest live bytes beside the weights of
diffusers 0.42.1's own pipelines on fake tensors, all blocks and two steps, tiles and slices as the
VAE makes them.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from service.catalog.pipelines.shipped import load_pipeline
from service.estimator.pipelines.call import make_call
from service.estimator.pipelines.workload import GenerateWorkload
from service.estimator.values.dtypes import DType

_FOLDER = Path(__file__).parents[3] / "data" / "truth" / "pipelines"
_FEW_BYTES = 4096
"""Scalars of a scheduler, in blocks of a few bytes each."""


def _read_rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (_FOLDER / name).read_text().splitlines()]


def _name(row: dict[str, Any]) -> str:
    words = "-".join(f"{value}" for value in row["workload"].values())
    return f"{row['pipeline']}-{row['phase']}-{words}"


def _count_bytes(row: dict[str, Any]) -> int:
    """Return the estimator's bytes of a traced phase, without weights."""
    words = dict(row["workload"])
    formats = {name: DType(words.pop(name)) for name in ("dtype", "vae_dtype") if name in words}
    workload = GenerateWorkload(**{"guidance": False, **words, **formats})
    phases = make_call(load_pipeline(row["pipeline"]), workload).list_phases()
    phase = next(part for part in phases if part.name == row["phase"])
    inputs = phase.held_bytes if phase.name == "denoising" else 0
    return phase.peak.activation_bytes + inputs


@pytest.mark.parametrize("row", _read_rows("peaks.jsonl"), ids=_name)
def test_a_phase_takes_what_the_pipeline_itself_takes(row: dict[str, Any]) -> None:
    """The bytes beside the weights are those of the traced run."""
    counted = _count_bytes(row)

    assert counted == pytest.approx(row["bytes"], abs=_FEW_BYTES)


@pytest.mark.parametrize("row", _read_rows("bounded.jsonl"), ids=_name)
def test_slices_of_tiles_are_bounded(row: dict[str, Any]) -> None:
    """Slices that are tiled too take no more than said, and at most a hundredth less."""
    counted = _count_bytes(row)

    assert row["bytes"] <= counted <= row["bytes"] * 1.01
