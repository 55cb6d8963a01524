"""Slurm, Ray and SkyPilot renderings of a job."""

import re
from collections.abc import Sequence
from importlib.resources import files

from service.estimator.values.units import GIB, MIB, ceil_div
from service.formats.renderings.host_needs import compute_host_needs
from service.formats.renderings.job import NODE_RANK, Job, Launch
from service.formats.renderings.pods import get_port, list_worker_flags
from service.formats.renderings.text import as_json, list_required_variables, render_shell_line

START_NODES = "start_nodes.py"
"""The program that runs a command on every node of a Ray cluster."""
_HEAD = 'HEAD_ADDRESS="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"'


def render_slurm_script(job: Job, launch: Launch) -> str:
    """Return a batch script of one replica.

    slurm.schedmd.com/sbatch.html; serving replicas are elements of an array.
    """
    lines = [
        "#!/bin/bash",
        f"#SBATCH --job-name={job.name}",
        f"#SBATCH --nodes={job.num_nodes}",
        "#SBATCH --ntasks-per-node=1",
        f"#SBATCH --gres={format_slurm_gres(job)}",
        *(f"#SBATCH {word}" for word in list_slurm_host_flags(job)),
        f"#SBATCH --nodelist={','.join(job.nodes)}"
        if len(job.nodes) == job.num_nodes and job.replicas == 1
        else "",
        f"#SBATCH --array=0-{job.replicas - 1}" if job.replicas > 1 else "",
    ]
    return "\n".join([*filter(None, lines), "", *_render_slurm_body(job, launch)]) + "\n"


def format_slurm_gres(job: Job) -> str:
    """Return Slurm's word for the GPUs of each node."""
    kind = _get_slurm_type(job)
    return f"gpu:{job.gpus_per_node}" if kind is None else f"gpu:{kind}:{job.gpus_per_node}"


def list_slurm_host_flags(job: Job) -> tuple[str, ...]:
    """Return the options of the CPUs and the memory of each node.

    Nodes that a job fills are its own. It may use all of their memory there (``--mem=0``,
    slurm.schedmd.com/sbatch.html), unless the answer keeps bytes on the host: then Slurm is to
    refuse nodes that have fewer. Part of a node without these options is one CPU and, where the
    cluster has no ``DefMemPerCPU``, all of the node's memory.
    """
    needs = compute_host_needs(job)
    memory = f"--mem={ceil_div(needs.memory_bytes, MIB)}M"
    if job.gpus_per_node == job.layout.gpus_per_node and job.mig_profile is None:
        return ("--exclusive", memory if job.host_bytes_per_node else "--mem=0")
    return (f"--cpus-per-task={needs.cpus}", memory)


def render_ray_request(job: Job, launch: Launch) -> dict[str, object]:
    """Return a replica's placement group and actor options.

    docs.ray.io, 2.60. A job beside them runs the command in each bundle.

    ``A100-80G`` and its like are no resources that Ray finds by itself: an administrator labels
    such nodes. So they do where GPUs are slices, each of which Ray takes for a GPU.
    """
    kind, part = (
        _get_ray_type(job),
        None if job.mig_profile is None else _get_ray_slice(job.mig_profile),
    )
    bundle: dict[str, object] = {"GPU": job.gpus_per_node}
    options: dict[str, object] = {"num_gpus": 1}
    if part is not None:
        bundle[part] = job.gpus_per_node
        options["resources"] = {part: 1}
    elif kind is not None:
        bundle[f"accelerator_type:{kind}"] = 0.001
        options["accelerator_type"] = kind
    bundles = [dict(bundle) for _ in range(job.num_nodes)]
    strategy = "STRICT_PACK" if job.num_nodes == 1 else "STRICT_SPREAD"
    return {
        "placement_group": {"bundles": bundles, "strategy": strategy},
        "actor_options": options,
        "num_placement_groups": job.replicas,
        "job": _render_ray_submission(job, launch, bundles),
    }


def _render_ray_submission(
    job: Job, launch: Launch, bundles: list[dict[str, object]]
) -> dict[str, object] | None:
    """Return the command, files and variables of a job of Ray's.

    Variables that are null are those of who submits. None for several servers, which would listen
    on one port: Ray Serve balances them.
    """
    if job.is_server and job.replicas > 1:
        return None
    command = f"{_render_node_line(job, launch)}\n"
    required = dict.fromkeys(list_required_variables(command))
    return {
        "entrypoint": f"python {START_NODES}",
        "files": {**launch.files, **render_ray_program(job, command, bundles)},
        "env_vars": {**launch.environment, **required},
    }


def render_ray_program(
    job: Job, command: str, bundles: list[dict[str, object]], *, folder: str = "."
) -> dict[str, str]:
    """Return the program that runs a command on every node.

    Its files lie in ``folder``, which is the job's own unless it is said.
    """
    program = files("service.formats.renderings").joinpath(f"{START_NODES}.txt")
    shape = {
        "folder": folder,
        "bundles": bundles,
        "strategy": "STRICT_PACK" if job.num_nodes == 1 else "STRICT_SPREAD",
        "groups": job.replicas,
        "ranks": job.num_nodes > 1,
    }
    return {
        START_NODES: program.read_text("utf-8"),
        "command.sh": command,
        "shape.json": as_json(shape),
    }


def list_slice_notes(job: Job) -> tuple[str, ...]:
    """Return notes on schedulers without a form for MIG slices.

    They say what is asked for in place of a slice.
    """
    if job.mig_profile is None:
        return ()
    part, full_gpu = _get_ray_slice(job.mig_profile), _list_sky_names(job)[0]
    resources = f"--resources='{{\"{part}\": …}}'"
    return (
        (
            "Ray takes a slice for a GPU: its nodes are started with the slices in "
            f"CUDA_VISIBLE_DEVICES and with {resources}"
        ),
        f"SkyPilot has no word for slices: its task asks for a whole {full_gpu}",
    )


def render_skypilot_task(job: Job, launch: Launch) -> dict[str, object]:
    """Return a SkyPilot task.

    docs.skypilot.co, YAML specification; several names of one GPU are tried in order.
    """
    names = _list_sky_names(job)
    accelerators = [{"accelerators": f"{name}:{job.gpus_per_node}"} for name in names]
    resources: dict[str, object] = (
        dict(accelerators[0]) if len(accelerators) == 1 else {"ordered": accelerators}
    )
    if get_port(job) is not None:
        resources["ports"] = get_port(job)
    exports = (
        'export HEAD_ADDRESS="$(echo "$SKYPILOT_NODE_IPS" | head -n 1)"',
        'export NODE_RANK="$SKYPILOT_NODE_RANK"',
    )
    task: dict[str, object] = {"name": job.name, "num_nodes": job.num_nodes, "resources": resources}
    commands = render_node_commands(job, launch, exports)
    # A variable that is null is one that who launches the task has to say.
    variables = {**launch.environment, **dict.fromkeys(list_required_variables(commands))}
    if variables:
        task["envs"] = variables
    task["run"] = commands
    return task | _render_sky_service(job)


def render_node_commands(job: Job, launch: Launch, exports: Sequence[str]) -> str:
    """Return the shell commands of every node.

    ``exports`` set the rank and the address of the first one, where there are several.
    """
    lines = [
        *(exports if job.num_nodes > 1 else ()),
        *_render_file_writes(launch),
        _render_node_line(job, launch),
    ]
    return "\n".join(lines) + "\n"


def _render_sky_service(job: Job) -> dict[str, object]:
    """Return SkyServe's part where there are replicas to balance.

    All of these servers answer ``GET /health``.
    """
    if get_port(job) is None or job.replicas == 1:
        return {}
    return {"service": {"readiness_probe": "/health", "replicas": job.replicas}}


def _render_slurm_body(job: Job, launch: Launch) -> list[str]:
    exports = [f"export {name}={value}" for name, value in launch.environment.items()]
    line = _render_node_line(job, launch)
    if job.num_nodes == 1:
        return [*exports, *_render_file_writes(launch), f"srun {line}"]
    inner = line.replace("${NODE_RANK}", "${SLURM_NODEID}").replace("'", "'\\''")
    return [*exports, f"export {_HEAD}", *_render_file_writes(launch), f"srun bash -c '{inner}'"]


def _render_node_line(job: Job, launch: Launch) -> str:
    """Return the command of every node.

    Its shell ends it where the node is not the first.
    """
    line = render_shell_line(launch.command)
    flags = " ".join(list_worker_flags(job))
    return f'{line} $([ "{NODE_RANK}" = 0 ] || echo {flags})' if flags else line


def _render_file_writes(launch: Launch) -> list[str]:
    """Return shell commands that write the command's files.

    They are written into its working directory.
    """
    return [
        f"cat > {name} <<'END'\n{content.rstrip()}\nEND" for name, content in launch.files.items()
    ]


def _get_slurm_type(job: Job) -> str | None:
    """Return Slurm's type of a GPU found through NVML.

    Lower case, underscores (slurm.schedmd.com/gres.html); a slice has its profile behind that
    (SchedMD/slurm ``src/plugins/gpu/nvml/gpu_nvml.c``, ``_handle_mig``).
    """
    if job.gpu is None:
        return job.mig_profile
    name = job.gpu.get_first("slurm") or job.gpu.get_first("nvml")
    if name is None:
        return job.mig_profile
    kind = re.sub(r"\s+", "_", name.casefold())
    return kind if job.mig_profile is None else f"{kind}_{job.mig_profile}"


def _get_ray_slice(profile: str) -> str:
    return f"mig-{profile}"


def _get_ray_type(job: Job) -> str | None:
    return job.gpu.get_first("ray") if job.gpu is not None else None


def _list_sky_names(job: Job) -> tuple[str, ...]:
    """Return SkyPilot's names of the GPU.

    A GPU of which only the memory is known is any with as much.
    """
    if job.gpu is None:
        return (f"{job.device.usable_bytes // GIB}GB+",)
    return job.gpu.aliases.get("skypilot", ()) or (job.gpu.family.replace(" ", ""),)
