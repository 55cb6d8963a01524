"""Values of the job protocol for tests.

Every argument has a default that does not matter to the test.
"""

import gzip
from hashlib import sha256

from service.db.records.measurements import PackedArtifact
from service.estimator.values.layout import Layout
from service.estimator.values.workload import TrainWorkload
from service.jobs.artifacts import ArtifactName
from service.jobs.contract import (
    MeasureRequest,
    ModelSource,
    Priority,
    ProbeDevice,
    ProbeRequest,
    ProbeResult,
    TrainTask,
)
from service.jobs.readings import InstantReading, Peaks, ProbeReading

TINY_LLAMA: dict[str, object] = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "vocab_size": 256,
    "max_position_embeddings": 128,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
}

INSTANTS = (
    InstantReading(name="forward", allocated_bytes=600),
    InstantReading(name="loss", allocated_bytes=700),
    InstantReading(name="backward", allocated_bytes=1000),
    InstantReading(name="optimizer_step", allocated_bytes=900),
)


def a_request(
    *,
    name: str | None = "tiny",
    gpu: str | None = None,
    device: ProbeDevice = ProbeDevice.CPU,
    priority: Priority = Priority.NORMAL,
    script: list[dict[str, object]] | None = None,
    artifacts: tuple[ArtifactName, ...] = (),
) -> MeasureRequest:
    """Return a training request; ``script`` is what tests.fake_probe does with it."""
    return MeasureRequest(
        model=ModelSource(
            architecture={}, hf_config={"script": script or []}, name=name, revision=1
        ),
        task=TrainTask(workload=TrainWorkload(sequence_length=8)),
        layout=Layout(),
        device=device,
        gpu=gpu,
        priority=priority,
        artifacts=artifacts,
    )


def an_artifact(content: bytes = b"history") -> PackedArtifact:
    """Return a memory snapshot as a worker hands it over."""
    return PackedArtifact(
        name=ArtifactName.MEMORY_SNAPSHOT.value,
        media_type="application/octet-stream",
        bytes=len(content),
        sha256=sha256(content).hexdigest(),
        packed=gzip.compress(content, mtime=0),
    )


def a_probe_request(
    script: list[dict[str, object]] | None = None, *, deadline_s: float = 60.0
) -> ProbeRequest:
    """Return what a probe reads."""
    return a_request(script=script).make_probe_request(deadline_s=deadline_s)


def a_result(*, allocated_bytes: int = 1000, extrapolated: bool = False) -> ProbeResult:
    """Return a training result whose peak is in backward."""
    return ProbeResult(
        environment={"torch": "2.13.0", "allocator": "none"},
        peaks=Peaks(allocated_bytes=allocated_bytes),
        instants=INSTANTS,
        probes=(
            ProbeReading(num_layers=1, micro_batch_size=1, sequence_length=8, instants=INSTANTS),
        ),
        extrapolated=extrapolated,
    )
