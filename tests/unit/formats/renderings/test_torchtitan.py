"""torchtitan's TOML of a pipeline, read back."""

import tomllib
from dataclasses import replace
from typing import Any

import pytest

from service.estimator.model.pipelines.split import split_layers
from service.estimator.values.layout import Layout
from service.estimator.values.pipeline import PipelineSchedule, PipelineSplit
from service.estimator.values.workload import Framework
from service.formats.renderings.render import make_launch
from tests.unit.formats.renderings.builders import FULLY_SHARDED, TRAIN, a_job


def read_launch(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 - each field has its own type
    """Return the launch file's tables of llama-2-7b on four stages."""
    layout = replace(FULLY_SHARDED, data_parallel=4, pipeline_parallel=4, **changes)
    workload = replace(
        TRAIN, framework=Framework.TORCHTITAN, micro_batch_size=2, gradient_accumulation_steps=8
    )
    return tomllib.loads(make_launch(a_job(workload, layout)).files["torchtitan.toml"])


def test_a_pipeline_takes_its_local_batch_in_micro_batches() -> None:
    """Eight micro-batches of two; the weights of a stage stay gathered by default."""
    read = read_launch()

    degrees = read["parallelism"]
    assert (degrees["pipeline_parallel_degree"], degrees["pipeline_parallel_schedule"]) == (
        4,
        "1F1B",
    )
    assert (read["training"]["local_batch_size"], degrees["pipeline_parallel_microbatch_size"]) == (
        *(16, 2),
    )
    assert degrees["fsdp_reshard_after_forward"] == "default"


@pytest.mark.parametrize("less", [(1, 1), (0, 2)])
def test_the_words_of_a_split_make_the_same_chunks_again(less: tuple[int, int]) -> None:
    """What the file says is what was estimated."""
    split = PipelineSplit(
        pipeline_parallel_first_stage_less_layers=less[0],
        pipeline_parallel_last_stage_less_layers=less[1],
    )
    degrees = read_launch(
        pipeline_split=split,
        virtual_pipeline_stages=2,
        pipeline_schedule=PipelineSchedule.INTERLEAVED_ZERO_BUBBLE,
    )["parallelism"]

    names = ("first_stage_less_layers", "last_stage_less_layers")
    again = PipelineSplit(
        **{f"pipeline_parallel_{name}": degrees[f"pipeline_parallel_{name}"] for name in names}
    )
    layout = Layout(pipeline_parallel=4, virtual_pipeline_stages=2, pipeline_split=split)
    assert degrees["pipeline_parallel_schedule"] == "InterleavedZeroBubble"
    assert split_layers(replace(layout, pipeline_split=again), 32) == split_layers(layout, 32)


def test_four_chunks_a_stage_are_modules() -> None:
    """Torchtitan makes two a stage unless a number of layers gives others, and none gives 8."""
    read = read_launch(virtual_pipeline_stages=2, pipeline_schedule=PipelineSchedule.LOOPED_BFS)
    more = read_launch(virtual_pipeline_stages=4)

    assert "module_fqns_per_model_part" not in read["parallelism"]
    assert len(more["parallelism"]["module_fqns_per_model_part"]) == 16


def test_layers_counted_by_hand_are_modules() -> None:
    """Seven layers and the embedding, then nine, nine, and seven with norm and head."""
    split = PipelineSplit(pipeline_layers=(7, 9, 9, 7))

    parts = read_launch(pipeline_split=split)["parallelism"]["module_fqns_per_model_part"]

    assert [len(part) for part in parts] == [8, 9, 9, 9]
    assert (parts[0][0], parts[1][0], parts[3][-1]) == ("tok_embeddings", "layers.7", "output")


def test_what_counts_beside_the_layout_is_in_the_file() -> None:
    """Products in fp8, the step in backward and deterministic kernels are switches of their own."""
    workload = replace(
        TRAIN,
        framework=Framework.TORCHTITAN,
        float8=True,
        deterministic=True,
        optimizer_in_backward=True,
    )
    launch = make_launch(a_job(workload, FULLY_SHARDED))

    read = tomllib.loads(launch.files["torchtitan.toml"])
    assert read["model"]["converters"] == ["quantize.linear.float8"]
    assert read["debug"]["deterministic"]
    assert read["optimizer"]["early_step_in_backward"]
    assert launch.notes[0].startswith("add name and flavor in [model] of")
    assert "torchtitan always clips gradients by their norm" in launch.notes


def test_a_toml_says_for_which_release_it_is() -> None:
    """0.3.0 has no option that takes one, and would end with "--module is required"."""
    workload = replace(TRAIN, framework=Framework.TORCHTITAN)
    launch = make_launch(a_job(workload, FULLY_SHARDED))

    (release,) = [note for note in launch.notes if "0.3.0" in note]
    assert release.startswith("the TOML is for torchtitan 0.2.2")
