"""Every configuration that is legal can be rendered, and what is rendered holds its layout."""

import json
from collections.abc import Iterator
from functools import cache

import pytest

from service.catalog.gpus import resolve_gpu
from service.estimator.rules.violations import find_violation
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.units import GIB
from service.estimator.values.workload import Engine, Framework, ServeWorkload, TrainWorkload
from service.formats.renderings.job import GpuNames, Job
from service.formats.renderings.render import make_launch, render
from tests.unit.formats.renderings.builders import flags_of
from tests.unit.planner.samples import servings, trainings

DEGREES = {
    Engine.VLLM: ("tensor_parallel_size", "pipeline_parallel_size"),
    Engine.SGLANG: ("tp_size", "pp_size"),
    Engine.TENSORRT_LLM: ("tp_size", "pp_size"),
}


@cache
def _legal_jobs() -> tuple[Job, ...]:
    return tuple(_sampled())


def _sampled() -> Iterator[Job]:
    entry = resolve_gpu("A100-SXM4-80GB")
    names = GpuNames(name=entry.name, family=entry.family, aliases=entry.aliases)
    for model, workload, layout in (*trainings(21, 3600), *servings(22, 1000)):
        if find_violation(model, workload, layout) is None:
            yield Job(
                model_name=model.family,
                model=model,
                workload=workload,
                layout=layout,
                device=entry.to_device(),
                gpu=names,
                needed_bytes=GIB,
            )


def test_whatever_is_legal_can_be_rendered() -> None:
    """Hundreds of sampled configurations are documents of JSON, the same each time."""
    jobs = _legal_jobs()

    assert len(jobs) > 250
    assert {
        job.workload.framework for job in jobs if isinstance(job.workload, TrainWorkload)
    } == set(Framework)
    assert {job.workload.engine for job in jobs if isinstance(job.workload, ServeWorkload)} == set(
        Engine
    )
    for job in jobs:
        assert json.dumps(render(job)) == json.dumps(render(job))


def test_nodes_and_replicas_hold_all_gpus() -> None:
    """GPUs per node times nodes times replicas are those of the layout, and no node has more than
    there are.
    """
    for job in _legal_jobs():
        assert job.gpus_per_node * job.num_nodes * job.replicas == job.layout.num_gpus
        assert job.gpus_per_node <= job.layout.gpus_per_node


def test_serving_flags_multiply_to_the_ranks_of_a_replica() -> None:
    """Degrees read back from an engine's command are those that were evaluated."""
    for job in _legal_jobs():
        if isinstance(job.workload, ServeWorkload) and job.workload.engine in DEGREES:
            flags = flags_of(make_launch(job).command)
            tensor, pipeline = (int(flags.get(name, 1)) for name in DEGREES[job.workload.engine])

            assert (tensor, pipeline) == (job.layout.tensor_parallel, job.layout.pipeline_parallel)


def test_training_flags_hold_degrees_and_batch() -> None:
    """Megatron's degrees and every framework's micro batch and accumulation come back as they
    were.
    """
    for job in _legal_jobs():
        workload, layout = job.workload, job.layout
        if not isinstance(workload, TrainWorkload) or workload.framework is Framework.TORCHTITAN:
            continue
        flags = flags_of(make_launch(job).command)
        micro, steps = workload.micro_batch_size, workload.gradient_accumulation_steps
        if workload.framework is Framework.TRANSFORMERS:
            said = (flags["per_device_train_batch_size"], flags["gradient_accumulation_steps"])
            assert said == (str(micro), str(steps))
            assert ("deepspeed" in flags) == (layout.sharding is Sharding.DEEPSPEED)
            continue
        if workload.framework is Framework.LITGPT:
            said = (flags["train.micro_batch_size"], flags["train.global_batch_size"])
            assert said == (str(micro), str(micro * steps))
            continue
        named = ("tensor", "pipeline")
        degrees = [int(flags[f"{name}_model_parallel_size"]) for name in named] + [
            int(flags["context_parallel_size"])
        ]
        assert degrees == [
            layout.tensor_parallel,
            layout.pipeline_parallel,
            layout.context_parallel,
        ]
        assert int(flags["global_batch_size"]) == micro * steps * layout.data_parallel


@pytest.mark.parametrize(
    ("gpus", "nodes", "per_node"), [(8, 1, 8), (12, 2, 6), (16, 2, 8), (3, 1, 3), (10, 2, 5)]
)
def test_a_job_takes_as_few_equal_nodes_as_hold_it(gpus: int, nodes: int, per_node: int) -> None:
    """Ranks are spread evenly: torchrun starts equally many on each node."""
    job = next(job for job in _legal_jobs() if isinstance(job.workload, TrainWorkload))
    job = Job(
        model_name="m",
        model=job.model,
        workload=job.workload,
        layout=Layout(data_parallel=gpus),
        device=job.device,
        gpu=None,
        needed_bytes=GIB,
    )

    assert (job.num_nodes, job.gpus_per_node) == (nodes, per_node)
