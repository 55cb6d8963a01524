"""Processes that a launch starts, one a GPU."""

from collections.abc import Mapping
from dataclasses import dataclass

from service.formats.launches.sources.commands import Command
from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.sources.kubeflow import NODES, PROCESSES
from service.formats.launches.trainers.setup import TrainerSetup
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.settings import Setting, Settings

_SINGLE = frozenset({"NO", "FALSE"})
"""Kinds of accelerate's processes with one of them; YAML's own NO is false."""
_OPEN = frozenset({"auto", "gpu"})
_GPUS_ON_NODE = "SLURM_GPUS_ON_NODE"
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_STARTERS = frozenset({"torchrun", "accelerate", "deepspeed", "mpirun", "mpiexec", "horovodrun"})
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
        *("i", "argument_*"),
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
    handed_in: HandedIn, accelerate: Settings | None, setup: TrainerSetup | None = None
) -> Processes:
    """Return the processes by their starter, else by its GPUs.

    A starter that is told no number, and a trainer that uses all GPUs, take those of a node.
    """
    uses_all_gpus = setup is not None and setup.uses_all_gpus
    processes = _count_started(handed_in, accelerate)
    if setup is not None and uses_all_gpus and _is_one_a_node(processes, handed_in.command):
        processes = _count_by_program(handed_in, reads_nodes=setup.reads_nodes)
    per_node, settings = count_visible(handed_in)
    takes_all = processes.is_started or uses_all_gpus
    if processes.count is not None or processes.nodes is None or per_node is None or not takes_all:
        return processes
    settings = (*processes.settings, *settings)
    return Processes(count=processes.nodes * per_node, nodes=processes.nodes, settings=settings)


def count_visible(handed_in: HandedIn) -> tuple[int | None, tuple[Setting, ...]]:
    """Return how many GPUs a node's processes see, and what says so.

    CUDA shows those that its variable lists, of those that the job has.
    """
    allocation = handed_in.allocation
    per_node = None if allocation is None else allocation.per_node
    counts = () if allocation is None else allocation.counts
    visible = _name_variables(handed_in.command, _VISIBLE).get(_VISIBLE)
    if visible is None:
        return per_node, counts
    if "$" in str(visible.value):
        return None, (visible,)
    # It reads no further than a device that is none (CUDA C++ Programming Guide).
    listed = str(visible.value).partition("-1")[0].split(",")
    number = len([device for device in listed if device.strip()])
    if not number:
        return per_node, counts
    return number if per_node is None else min(number, per_node), (*counts, visible)


def _is_one_a_node(processes: Processes, command: Command | None) -> bool:
    """Return whether a program runs once a node.

    Nothing starts it, or srun does.
    """
    starters = {} if command is None else command.starters
    if "srun" in starters:
        return processes.count in {None, processes.nodes}
    return not _STARTERS.intersection(starters)


def _count_by_program(handed_in: HandedIn, *, reads_nodes: bool) -> Processes:
    """Return the processes that a program starts by itself.

    In a job of several nodes that nothing starts it on, nobody knows on how many it is.
    """
    command, allocation = handed_in.command, handed_in.allocation
    named = _name_variables(command, "NNODES", "NPROC_PER_NODE", NODES)
    nodes = named.get("NNODES") if reads_nodes else None
    is_spread = allocation is not None and allocation.num_nodes != 1
    is_pod = str(named[NODES].value) != "1" if NODES in named else False
    is_stepped = command is not None and "srun" in command.starters
    if nodes is None and (is_pod or (is_spread and not is_stepped)):
        return Processes(nodes=None, settings=tuple(named.values()))
    return _multiply(nodes, named.get("NPROC_PER_NODE") if reads_nodes else None, None)


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
            return _count_mpirun(starters[name])
    return _count_environment(handed_in)


def _is_open(setting: Setting) -> bool:
    """Return whether the machine or a script's caller says it."""
    text = str(setting.value).casefold()
    return text in _OPEN or "$" in text


def _is_unknown(setting: Setting) -> bool:
    """Return whether a script's caller says it, or a range of numbers."""
    text = str(setting.value)
    return any(sign in text for sign in "$:") and _GPUS_ON_NODE not in text


def _multiply(nodes: Setting | None, each: Setting | None, default: int | None) -> Processes:
    settings = tuple(setting for setting in (nodes, each) if setting is not None)
    number = 1
    if nodes is not None:
        if _is_unknown(nodes) or _is_open(nodes):
            return Processes(nodes=None, settings=settings)
        number = nodes.as_int(minimum=1)
    if each is not None and _is_open(each):
        return Processes(nodes=None if _is_unknown(each) else number, settings=settings)
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
        ids = file.peek("gpu_ids")
        if ids is None or str(ids.value).casefold() == "all":
            return Processes(nodes=nodes, settings=settings)
        # It starts one a GPU of the machine: more than these have none, so that these are all.
        listed = len([index for index in str(ids.value).split(",") if index.strip()])
        return Processes(count=listed * nodes, nodes=nodes, settings=(*settings, ids))
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


def _count_mpirun(starter: Settings) -> Processes:
    """Return mpirun's processes: a number, or hosts' slots (Open MPI)."""
    number, hosts = starter.take("np"), starter.peek("host")
    if number is not None or hosts is None or "$" in str(hosts.value):
        return _multiply(None, number, None)
    slots = [host.partition(":")[2] or "1" for host in str(hosts.value).split(",") if host]
    if not all(slot.isdecimal() for slot in slots):
        return Processes(nodes=len(slots), settings=(hosts,))
    return Processes(count=sum(map(int, slots)), nodes=len(slots), settings=(hosts,))


def _count_srun(starter: Settings) -> Processes:
    total, nodes = starter.take("ntasks"), starter.take("nodes")
    if total is not None and _is_open(total):
        return Processes(nodes=None, settings=(total,))
    if total is not None:
        settings = (total,) if nodes is None else (total, nodes)
        number = None if nodes is None or _is_unknown(nodes) else nodes.as_int(minimum=1)
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


def _count_environment(handed_in: HandedIn) -> Processes:
    """Return what environment variables say of the GPUs."""
    named = _name_variables(handed_in.command, "NNODES", "NPROC_PER_NODE", _VISIBLE, NODES)
    if "NPROC_PER_NODE" in named:
        return _multiply(named.get("NNODES"), named["NPROC_PER_NODE"], None)
    if _VISIBLE in named and "NNODES" not in named and "$" not in str(named[_VISIBLE].value):
        # Nobody starts a second process, whatever this one sees.
        number, settings = count_visible(handed_in)
        return Processes(count=1, settings=settings if number == 1 else (), is_started=False)
    pods = named.get(NODES)
    if pods is not None and str(pods.value) != "1":
        # An operator starts a program in each pod; whether they find each other is its code's.
        return Processes(nodes=None, settings=(pods,))
    return Processes(is_started=False)


def account_starters(handed_in: HandedIn, draft: Draft) -> None:
    """Account for what starters are told beside the number of processes."""
    if handed_in.command is not None:
        for name, starter in handed_in.command.starters.items():
            is_container = name in {"docker", "podman"}
            draft.account(starter, ("*",) if is_container else _STARTERS_WITHOUT_EFFECT)
