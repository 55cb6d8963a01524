"""dstack: a task, or a service of replicas.

0.22, ``dstack/_internal/core/models/{configurations,resources}.py``; its "GB" are GiB. Names of
GPUs are those of its catalogue (gpuhunt, ``constraints.py``): a family without spaces, which it
takes with any memory in a range.
"""

import re

from service.estimator.values.units import GIB, MIB, ceil_div
from service.formats.manifests.format import Document
from service.formats.renderings.host_needs import compute_host_needs
from service.formats.renderings.images import explain_missing_image, find_image
from service.formats.renderings.job import Job, Launch, UnrenderableError
from service.formats.renderings.pods import get_port
from service.formats.renderings.schedulers import render_node_commands
from service.formats.renderings.text import list_required_variables

_EXPORTS = ('export HEAD_ADDRESS="$DSTACK_MASTER_NODE_IP"', 'export NODE_RANK="$DSTACK_NODE_RANK"')
_MAX_STEM = 35


def render_dstack_run(job: Job, launch: Launch) -> Document:
    """Return the configuration of a run.

    Raises UnrenderableError where no image is known, and for a server on several nodes.
    """
    image = find_image(job)
    if image is None:
        raise UnrenderableError(explain_missing_image(job))
    if job.is_server and job.num_nodes > 1:
        message = (
            f"a replica of a service of dstack is on one node, and this one spans {job.num_nodes}: "
            "format skypilot, slurm or kubernetes"
        )
        raise UnrenderableError(message)
    commands = render_node_commands(job, launch, _EXPORTS)
    environment = [f"{name}={value}" for name, value in launch.environment.items()]
    # A name alone is taken from the environment of who applies it.
    passed = list_required_variables(commands)
    result: dict[str, object] = {
        "type": "service" if job.is_server else "task",
        "name": _name_run(job),
        "image": image,
        "env": [*environment, *passed],
        # One command, for dstack joins several by "&&", which ends no text of a file.
        "commands": [f"set -e\n{commands}".rstrip()],
        "resources": _render_resources(job),
    }
    return result | (_render_service(job) if job.is_server else _render_nodes(job))


def _render_service(job: Job) -> dict[str, object]:
    """Return port and replicas; all of these servers answer ``GET /health``."""
    return {
        "port": get_port(job),
        "replicas": job.replicas,
        "probes": [{"type": "http", "url": "/health", "interval": "10s"}],
    }


def _render_nodes(job: Job) -> dict[str, object]:
    pods = job.num_nodes * job.replicas
    return {"nodes": pods} if pods > 1 else {}


def _render_resources(job: Job) -> dict[str, object]:
    """Return what a node has at the least."""
    needs = compute_host_needs(job)
    return {
        "cpu": f"{needs.cpus}..",
        "memory": f"{ceil_div(needs.memory_bytes, GIB)}GB..",
        "shm_size": f"{ceil_div(needs.shm_bytes, MIB)}MB",
        "gpu": _render_gpu(job),
    }


def _render_gpu(job: Job) -> dict[str, object]:
    """Return the GPUs of a node.

    They have the known name, and at least its memory; where a memory alone is known, they are any
    of NVIDIA's with as much.
    """
    gpu: dict[str, object] = {"vendor": job.vendor, "count": job.gpus_per_node}
    if job.gpu is None:
        return gpu | {"memory": f"{job.device.usable_bytes // GIB}GB.."}
    memory = f"{job.device.capacity_bytes // GIB}GB.."
    return gpu | {"name": _list_names(job.gpu.name, job.gpu.family), "memory": memory}


def _list_names(name: str, family: str) -> list[str]:
    """Return dstack's names of a GPU, the narrowest first."""
    short = re.sub(r"^(Quadro|RTX(?=A\d))", "", re.sub(r"[ -]", "", family))
    bridged = f"{short}NVL"
    return [bridged, short] if "-NVL-" in name and not short.endswith("NVL") else [short]


def _name_run(job: Job) -> str:
    """Return a name of 41 characters at most, a letter first."""
    if job.options.name is not None:
        return job.options.name
    stem, _, kind = job.name.rpartition("-")
    stem = stem if stem[0].isalpha() else f"m-{stem}"
    return f"{stem[:_MAX_STEM].rstrip('-')}-{kind}"
