"""The allocator's history that a CUDA probe keeps on request: it is handed on, and what it disturbs
is not told.
"""

from dataclasses import replace

from tests.fake_nvml import FakeGpu
from tests.unit.probes.cuda.builders import (
    POINT,
    SERVING,
    TRAINING,
    StartingGpu,
    backend_on,
    silent,
    subject,
)


def test_what_the_allocator_wrote_down_is_handed_on() -> None:
    """From before the model is built to after its last step, once for a run."""
    gpu, kept = FakeGpu(uuid="GPU-1111"), list[object]()
    driver = StartingGpu(gpu)
    session = backend_on(gpu, driver).run(
        subject(TRAINING), POINT, on_step=silent, save_snapshot=kept.append
    )

    assert kept == [{"segments": [], "device_traces": [[]]}]
    assert [call for call in driver.calls if "history" in call] == ["record_history", "history"]
    assert session.reading.live


def test_steps_that_are_written_down_are_not_timed() -> None:
    """Nobody learns how long a step takes from one that somebody slowed; the note says how to ask
    for it.
    """
    backend = backend_on(FakeGpu(uuid="GPU-1111"))
    decoding = replace(POINT, output_tokens=4)
    kept = backend.run(
        subject(SERVING), decoding, on_step=silent, save_snapshot=list[object]().append
    )
    plain = backend.run(subject(SERVING), decoding, on_step=silent)

    assert (kept.step_seconds, bool(plain.step_seconds)) == ((), True)
    assert any("without memory_snapshot" in note for note in kept.notes)
    assert not any("prefill took" in note for note in kept.notes)
    assert not any("without memory_snapshot" in note for note in plain.notes)
