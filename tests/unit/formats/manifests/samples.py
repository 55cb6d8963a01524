"""Every format's rendering of jobs of every shape, for tests and for benches with a real API."""

from collections.abc import Iterator
from dataclasses import replace

from service.estimator.values.layout import Layout
from service.estimator.values.workload import Engine, ServeWorkload
from service.formats.manifests.format import Document
from service.formats.manifests.registry import FORMATS, render_format
from service.formats.renderings.job import Job
from tests.unit.formats.renderings.builders import FULLY_SHARDED, ZERO_3, a_job

CHAT = ServeWorkload(num_sequences=8, prompt_tokens=512, engine=Engine.VLLM)
LARGE = Layout(tensor_parallel=8, pipeline_parallel=2, data_parallel=3)


def _name(job: Job) -> Job:
    """Return a server whose weights and image are known."""
    return replace(job, checkpoints=("acme/llama-2-7b",), image="registry.example/ray-vllm:1")


SAMPLES: dict[str, Job] = {
    "one node": a_job(layout=replace(ZERO_3, data_parallel=4)),
    "two nodes": a_job(),
    "accelerate": a_job(layout=FULLY_SHARDED),
    "server": a_job(CHAT, Layout()),
    "replicas": a_job(CHAT, Layout(tensor_parallel=2, data_parallel=3), gpu="H100-SXM5-80GB"),
    "large replicas": a_job(CHAT, LARGE, model="llama-2-70b"),
    "other engine": a_job(replace(CHAT, engine=Engine.SGLANG), Layout(tensor_parallel=2)),
    "slice": a_job(CHAT, Layout(), mig_profile="3g.40gb"),
    "script": a_job(replace(CHAT, engine=Engine.TRANSFORMERS), Layout(data_parallel=2)),
    "named nodes": a_job(nodes=("n1", "n7")),
    "memory alone": replace(a_job(CHAT, Layout()), gpu=None),
    "named server": _name(a_job(CHAT, Layout(tensor_parallel=2, data_parallel=3))),
    "named large server": _name(a_job(CHAT, LARGE)),
    "split server": replace(
        a_job(replace(CHAT, output_tokens=256), Layout(tensor_parallel=2, data_parallel=3)),
        prefill_share=0.25,
    ),
    "named job": replace(a_job(), image="registry.example/ray-torch:1"),
    "named script": replace(
        a_job(replace(CHAT, engine=Engine.TRANSFORMERS), Layout(data_parallel=2)),
        image="registry.example/ray-torch:1",
    ),
    "amd": replace(a_job(CHAT, Layout(), gpu="MI300X-192GB"), image="registry.example/rocm:1"),
}


def list_samples() -> Iterator[tuple[str, str, Document]]:
    """Yield word, name of the job and document of every job that a format carries."""
    for word in FORMATS:
        for name, job in SAMPLES.items():
            document = render_format(word, job).document
            if document is not None:
                yield word, name, document
