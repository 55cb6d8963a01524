"""What a job takes of its hosts: processes, and what the answer keeps there."""

from dataclasses import replace

from service.estimator.values.layout import Layout
from service.estimator.values.units import GIB
from service.estimator.values.workload import Engine, ServeWorkload
from service.formats.renderings.host_needs import compute_host_needs
from tests.unit.formats.renderings.builders import ZERO_3, a_job

CHAT = ServeWorkload(num_sequences=8, prompt_tokens=512, engine=Engine.VLLM)


def test_every_gpu_has_processors_and_memory() -> None:
    """Eight GPUs of a node have 32 processors and 128 GiB, half of which may be shared."""
    needs = compute_host_needs(a_job(layout=ZERO_3))

    assert (needs.cpus, needs.memory_bytes, needs.shm_bytes) == (32, 128 * GIB, 64 * GIB)


def test_what_is_kept_on_the_host_is_asked_for() -> None:
    """Offloaded states come on top of what processes take."""
    job = replace(a_job(layout=ZERO_3), host_bytes_per_node=200 * GIB)

    needs = compute_host_needs(job)

    assert (needs.memory_bytes, needs.shm_bytes) == (328 * GIB, 64 * GIB)


def test_a_replica_has_its_share_of_what_its_node_keeps() -> None:
    """Four replicas of two GPUs share a node: each has a quarter of its bytes, rounded up."""
    layout = Layout(tensor_parallel=2, data_parallel=4)
    job = replace(
        a_job(replace(CHAT, engine=Engine.SGLANG), layout), host_bytes_per_node=80 * GIB + 1
    )

    needs = compute_host_needs(job)

    assert (needs.cpus, needs.shm_bytes) == (8, 16 * GIB)
    assert needs.memory_bytes == 52 * GIB + 2


def test_vllm_offloads_to_shared_memory() -> None:
    """Its region of offloaded cache is a file in /dev/shm, which must hold it."""
    job = replace(a_job(CHAT, Layout(tensor_parallel=2)), host_bytes_per_node=64 * GIB)

    needs = compute_host_needs(job)

    assert (needs.memory_bytes, needs.shm_bytes) == (96 * GIB, 80 * GIB)
