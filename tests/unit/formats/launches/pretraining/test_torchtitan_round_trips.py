"""torchtitan's TOML as it is rendered, read back; and damaged files."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.pipeline import PipelineSchedule, PipelineSplit
from service.estimator.values.precision import Precision
from service.estimator.values.workload import (
    Allocator,
    Checkpointing,
    Framework,
    Offload,
    OffloadTarget,
    TrainWorkload,
)
from service.formats.launches.values.errors import LaunchFormatError
from tests.unit.formats.launches.asking import GPU, ask
from tests.unit.formats.launches.pretraining.test_torchtitan import PYTHON, TOML
from tests.unit.formats.launches.training import read_training_back
from tests.unit.formats.renderings.builders import a_job

MIXED = Precision(
    name="custom",
    param_dtype=DType.FP32,
    compute_dtype=DType.BF16,
    grad_dtype=DType.FP32,
    optimizer_dtype=DType.FP32,
    reduce_dtype=DType.FP32,
)


OFFLOADED = Offload(parameters=OffloadTarget.CPU, optimizer=OffloadTarget.CPU)


@st.composite
def draw_jobs(draw: st.DrawFn) -> Any:  # noqa: ANN401 - a job
    """Draw a job of torchtitan that its TOML says."""
    stages = draw(st.sampled_from([1, 2, 4]))
    schedule = draw(
        st.sampled_from([PipelineSchedule.GPIPE, PipelineSchedule.ONE_F_ONE_B,
                         PipelineSchedule.INTERLEAVED, PipelineSchedule.ZBV])
    )  # fmt: skip
    is_v = schedule in {PipelineSchedule.INTERLEAVED, PipelineSchedule.ZBV}
    ends: dict[str, Any] = {
        f"pipeline_parallel_{end}_stage_less_layers": 1 for end in ("first", "last")
    }
    pipeline: dict[str, Any] = {
        "pipeline_parallel": stages,
        "pipeline_schedule": schedule,
        "virtual_pipeline_stages": 2 if is_v else 1,
        "pipeline_split": PipelineSplit(**ends),
    }
    data = draw(st.sampled_from([2, 4, 8]))
    shards = draw(st.sampled_from([None, 2]))
    layout = Layout(
        data_parallel=data,
        shard_size=shards if shards is not None and shards < data else None,
        tensor_parallel=draw(st.sampled_from([1, 2])),
        context_parallel=draw(st.sampled_from([1, 2])),
        sharding=Sharding.FSDP2,
        zero_stage=3,
        shard_embeddings_separately=True,
        reshard_after_forward=draw(st.booleans()),
        **(pipeline if stages > 1 else {}),
    )
    workload = TrainWorkload(
        sequence_length=4096,
        framework=Framework.TORCHTITAN,
        micro_batch_size=draw(st.sampled_from([1, 2])),
        gradient_accumulation_steps=draw(st.sampled_from([1, 8])),
        precision=MIXED,
        optimizer=draw(st.sampled_from(["adamw", "adamw_fused", "adamw_loop"])),
        activation_checkpointing=draw(st.sampled_from(Checkpointing)),
        compile=draw(st.booleans()),
        float8=draw(st.booleans()),
        deterministic=draw(st.booleans()),
        optimizer_in_backward=draw(st.booleans()),
        offload=draw(st.sampled_from([Offload(), OFFLOADED])),
        gradient_clipping=True,
        allocator=draw(st.sampled_from(Allocator)),
    )
    if workload.activation_checkpointing is Checkpointing.SELECTIVE:
        workload = replace(workload, selective_every=draw(st.sampled_from([None, 2])))
    return a_job(workload, layout, model="llama-3.1-8b", gpu=GPU)


@settings(max_examples=40, deadline=None)
@given(job=draw_jobs())
def test_what_is_rendered_is_read_back(job: Any) -> None:  # noqa: ANN401 - a job
    """A rendered TOML asks what was evaluated, of the same model, workload and layout."""
    question = read_training_back(job)

    assert question.workload == job.workload
    assert question.layout == job.layout
    assert question.architecture.fingerprint() == job.model.fingerprint()


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_damaged_file_is_read_or_refused(data: st.DataObject) -> None:
    """No other error comes out of any text."""
    text, suffix = data.draw(st.sampled_from([(TOML, "toml"), (PYTHON, "py")]))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 60)))
    tokens = ["[", "]", "(", ")", "=", "\n", "-1", "{", "}", '"', "[[a.b]]", "base()", "0", "*"]
    piece = data.draw(st.one_of(st.sampled_from(tokens), st.just(text[start:end] * 2)))
    damaged = text[:start] + piece + text[end:]

    with suppress(LaunchFormatError):
        ask(files=[{"name": f"a.{suffix}", "content": damaged}], launcher="torchtitan", gpu=GPU)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.toml", "a = " + "[" * 5000),
        ("a.toml", "a = " + "{b=" * 3000),
        ("a.toml", "a" + ".a" * 5000 + " = 1"),
        ("a.py", "(" * 5000),
        ("a.py", "def f() -> Trainer.Config:\n    return f()\n"),
        ("a.py", "def f():\n    return Trainer.Config(training=" + "A(b=" * 90 + "1" + ")" * 91),
        ("a.py", "def f():\n    return Trainer.Config(a=" + "*".join(["9" * 99] * 900) + ")"),
    ],
)
def test_a_bomb_is_refused_or_read_small(name: str, text: str) -> None:
    """What nests or repeats without end is refused, or counts for nothing."""
    with suppress(LaunchFormatError):
        question = ask(files=[{"name": name, "content": text}], launcher="torchtitan", gpu=GPU)

        assert len(str(question.document)) < 10_000
