"""Processes that a launch starts, one a GPU."""

from collections.abc import Mapping
from dataclasses import dataclass

from service.formats.launches.sources.commands import Command
from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.sources.kubeflow import NODES, PROCESSES
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.settings import Setting, Settings

_SINGLE = frozenset({"NO", "FALSE"})
"""Kinds of accelerate's processes with one of them; YAML's own NO is false."""
_OPEN = frozenset({"auto", "gpu"})
_STARTERS_WITHOUT_EFFECT = (
    *("rdzv*", "master_*", "node_rank", "standalone", "max_restarts", "monitor_interval", "role"),
    *("start_method", "log_dir", "redirects", "tee", "m", "module", "no_python", "run_path"),
    *("hostfile", "ssh_port", "launcher*", "no_local_rank", "no_ssh*", "save_pid", "elastic*"),
    *("bind_cores*", "force_multi", "machine_rank", "main_process_*", "debug", "gpu_ids"),
    *("job_name", "partition", "time", "label", "exclusive", "unbuffered", "cpus_per_task"),
    *("mca", "gmca", "H", "host", "x", "hostfile", "bind_to", "map_by", "allow_run_as_root"),
    *("mpi", "container_*", "ntasks_per_socket", "distribution", "cpu_bind", "gpu_bind"),
    *("oversubscribe", "tag_output", "display_map", "verbose", "report_bindings", "use_env"),
    *(
        "nodes",
        "ntasks",
        "ntasks_per_node",
        "kill_on_bad_exit",
        "jobid",
        "export",
        "output",
        "error",
        "mem",
        "gres",
        "gpus*",
        "i",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Processes:
    """Number of processes, of nodes, and what says so.

    ``count`` is None where nobody says it, ``nodes`` where Slurm chooses them.
    """

    count: int | None = None
    nodes: int | None = 1
    settings: tuple[Setting, ...] = ()
    is_started: bool = True
    """Whether a starter of several processes runs."""

    @property
    def per_node(self) -> int | None:
        """Processes of one of several nodes, None where they are on one."""
        count, nodes = self.count, self.nodes
        if count is None or nodes is None or nodes == 1 or count % nodes:
            return None
        return count // nodes


def count_processes(
    handed_in: HandedIn, accelerate: Settings | None, *, uses_all_gpus: bool = False
) -> Processes:
    """Return the processes by their starter, else by the job's GPUs.

    A starter that is told no number, and a program that ``uses_all_gpus``, take those of a node.
    """
    processes, allocation = _count_started(handed_in, accelerate), handed_in.allocation
    takes_all = processes.is_started or uses_all_gpus
    if processes.count is not None or allocation is None or not takes_all:
        return processes
    nodes = allocation.num_nodes if uses_all_gpus and not processes.is_started else processes.nodes
    if allocation.per_node is None or nodes is None or (uses_all_gpus and nodes > 1):
        return processes
    settings = (*processes.settings, *allocation.counts)
    return Processes(count=nodes * allocation.per_node, nodes=nodes, settings=settings)


def _count_started(handed_in: HandedIn, accelerate: Settings | None) -> Processes:
    """Return the processes by starters, accelerate's file or the environment.

    The innermost starter counts: ``srun torchrun`` starts torchrun once a node.
    """
    command = handed_in.command
    starters: Mapping[str, Settings] = {} if command is None else command.starters
    if "torchrun" in starters:
        return _count_torchrun(starters["torchrun"], command)
    if "accelerate" in starters or accelerate is not None:
        return _count_accelerate(accelerate or Settings())
    if "deepspeed" in starters:
        return _count_deepspeed(starters["deepspeed"])
    if "srun" in starters:
        return _count_srun(starters["srun"])
    for name in ("mpirun", "mpiexec", "horovodrun"):
        if name in starters:
            return _multiply(None, starters[name].take("np"), None)
    return _count_environment(command)


def _is_open(setting: Setting) -> bool:
    """Return whether the machine or a script's caller says it."""
    text = str(setting.value).casefold()
    return text in _OPEN or "$" in text


def _multiply(nodes: Setting | None, each: Setting | None, default: int | None) -> Processes:
    settings = tuple(setting for setting in (nodes, each) if setting is not None)
    number = 1
    if nodes is not None:
        if ":" in str(nodes.value) or _is_open(nodes):
            return Processes(settings=settings)
        number = nodes.as_int(minimum=1)
    if each is not None and _is_open(each):
        return Processes(nodes=number, settings=settings)
    local = default if each is None else each.as_int(minimum=1)
    return Processes(
        count=None if local is None else number * local, nodes=number, settings=settings
    )


def _count_torchrun(starter: Settings, command: Command | None) -> Processes:
    """Return torchrun's processes; its variables count where no option does.

    torch 2.13, ``torch/distributed/argparse_util.py``.
    """
    named = _name_variables(command, NODES, PROCESSES)
    nodes, processes = starter.take("nnodes"), starter.take("nproc_per_node", "nproc")
    return _multiply(nodes or named.get(NODES), processes or named.get(PROCESSES), 1)


def _count_accelerate(file: Settings) -> Processes:
    """Return accelerate's processes, which are those of all machines together."""
    kind = file.peek("distributed_type")
    count, machines = file.take("num_processes"), file.take("num_machines")
    settings = tuple(setting for setting in (count, machines) if setting is not None)
    if any(_is_open(setting) for setting in settings):
        return Processes(nodes=None, settings=settings)
    nodes = 1 if machines is None else machines.as_int(minimum=1)
    if kind is not None and str(kind.value).upper() in _SINGLE:
        # Nobody starts more: ``simple_launcher`` of accelerate 1.15, commands/launch.py.
        return Processes(count=1, settings=settings)
    if count is None or str(count.value) == "-1":
        return Processes(nodes=nodes, settings=settings)
    number = count.as_int(minimum=1)
    if number % nodes:
        raise count.refuse(f"a multiple of num_machines, {nodes}: it counts those of all machines")
    return Processes(count=number, nodes=nodes, settings=settings)


def _count_deepspeed(starter: Settings) -> Processes:
    included = starter.take("include", "i")
    if included is not None and not _is_open(included):
        hosts = [host for host in included.as_text().split("@") if host]
        slots = [host.partition(":")[2] for host in hosts]
        if all(slots):
            count = sum(len(slot.split(",")) for slot in slots)
            return Processes(count=count, nodes=len(hosts), settings=(included,))
        return Processes(nodes=len(hosts), settings=(included,))
    return _multiply(starter.take("num_nodes"), starter.take("num_gpus"), None)


def _count_srun(starter: Settings) -> Processes:
    total, nodes = starter.take("ntasks"), starter.take("nodes")
    if total is not None and _is_open(total):
        return Processes(nodes=None, settings=(total,))
    if total is not None:
        settings = (total,) if nodes is None else (total, nodes)
        number = None if nodes is None else nodes.as_int(minimum=1)
        return Processes(count=total.as_int(minimum=1), nodes=number, settings=settings)
    each = starter.take("ntasks_per_node")
    return _multiply(nodes, each, 1 if nodes is not None else None)


def _name_variables(command: Command | None, *names: str) -> dict[str, Setting]:
    """Return those of a command's variables that say something."""
    if command is None:
        return {}
    return {
        name: Setting(key=name, value=command.environment[name], where=command.where)
        for name in names
        if command.environment.get(name)
    }


def _count_environment(command: Command | None) -> Processes:
    """Return what environment variables say of the GPUs."""
    named = _name_variables(command, "NNODES", "NPROC_PER_NODE", "CUDA_VISIBLE_DEVICES")
    if "NPROC_PER_NODE" in named:
        return _multiply(named.get("NNODES"), named["NPROC_PER_NODE"], None)
    visible = named.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and "NNODES" not in named and "$" not in str(visible.value):
        count = len([device for device in str(visible.value).split(",") if device.strip()])
        return Processes(count=count or None, settings=(visible,))
    pods = _name_variables(command, NODES).get(NODES)
    if pods is not None and str(pods.value) != "1":
        # An operator starts a program in each pod; whether they find each other is its code's.
        return Processes(nodes=None, settings=(pods,))
    return Processes(is_started=False)


def warn_replicas(
    processes: Processes, handed_in: HandedIn, draft: Draft, *, uses_all_gpus: bool
) -> None:
    """Warn of one process with several GPUs, which Trainer replicates on."""
    allocation = handed_in.allocation
    per_node = None if allocation is None else allocation.per_node
    if per_node is not None and per_node > 1 and not (processes.is_started or uses_all_gpus):
        draft.warn(
            f"one process has {per_node} GPUs, which Trainer runs by nn.DataParallel: that has no "
            "term, and the answer is for a process of one GPU"
        )


def account_starters(handed_in: HandedIn, draft: Draft) -> None:
    """Account for what starters are told beside the number of processes."""
    if handed_in.command is not None:
        for name, starter in handed_in.command.starters.items():
            is_container = name in {"docker", "podman"}
            draft.account(starter, ("*",) if is_container else _STARTERS_WITHOUT_EFFECT)
