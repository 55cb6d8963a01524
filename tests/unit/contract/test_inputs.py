"""Images, videos and audio of a request, in people's units."""

from typing import Any

import msgspec
import pytest

from service.contract.schemas.workload import WorkloadRequest
from service.contract.to_question.workloads import read_workload
from service.estimator.values.batches import Clip, Inputs, Picture, Sound
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.workload import Workload

TRAINED = {"task": "train", "sequence_length": 4096}
SERVED = {"task": "serve", "num_sequences": 64, "prompt_tokens": 1536}


def read(workload: dict[str, object], inputs: object) -> Workload:
    """Read a request with inputs."""
    request: Any = msgspec.convert(workload | {"inputs": inputs}, WorkloadRequest)
    return read_workload(request)[0]


def test_inputs_are_read_in_their_units() -> None:
    """Pixels, frames and seconds, each with a number of one where none is said."""
    sent = {
        "images": [{"width": 640, "height": 480, "count": 2}],
        "videos": [{"frames": 16, "width": 448, "height": 448}],
        "audio": [{"seconds": 2.5}],
        "processor": {"max_pixels": 50176},
    }

    trained, served = read(TRAINED, sent), read(SERVED, sent)

    assert trained.inputs == served.inputs
    assert trained.inputs == Inputs(
        images=(Picture(width=640, height=480, count=2),),
        videos=(Clip(frames=16, width=448, height=448),),
        audio=(Sound(seconds=2.5),),
        processor={"max_pixels": 50176},
    )


def test_inputs_of_nothing_are_refused() -> None:
    """An object that names nothing is a slip, not a request for text alone."""
    with pytest.raises(InvalidInputError, match="inputs names nothing; say images"):
        read(TRAINED, {"processor": {}})
