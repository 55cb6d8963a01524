"""GPUs, nodes and tasks of a job of Slurm, by its options.

Those of ``sbatch`` and ``srun`` (their manual pages, 26.05): ``--gres``, ``--gpus*``,
``--tres-per-*`` and ``--constraint``.
"""

import re

from service.estimator.values.units import ceil_div
from service.formats.gpu_requests.gres import Gres, read_gres, split_slice
from service.formats.launches.values.allocation import Allocation
from service.formats.launches.values.settings import Setting, Settings

_NUMBER = re.compile(r"([0-9]{1,6})")
_SIGNS = re.compile(r"[\s()\[\]\"']+")
_TIMES = re.compile(r"\*[0-9]+$")
_MAX_GPUS = 65_536
PER_NODE = ("gpus_per_node", "gres", "tres_per_node")
_OPTIONS = (*PER_NODE, "gpus", "gpus_per_task", "tres_per_task", "gpus_per_socket")
_VARIABLE = re.compile(r":?\$(?:\{[^{}]*\}|\w+)")
_NEGATIVE = re.compile(r"gpu(?::[^:,]+)?[:=]-")


def read_slurm(options: Settings) -> Allocation | None:
    """Return the GPUs of a job, None without any."""
    num_nodes = count_nodes(options)
    setting, entries = _find_entries(options)
    constraint = options.peek("constraint")
    types = tuple(dict.fromkeys(entry.type for entry in entries if entry.type))
    profiles = {split_slice(name)[1] for name in types}
    features = [tuple(split_slice(name)[0] for name in types)] if types else []
    features += [] if constraint is None else _read_constraint(str(constraint.value))
    names = [setting] if setting is not None and types else []
    names += [] if constraint is None else [constraint]
    partition = options.peek("partition")
    if setting is None and not features:
        return None
    is_open = setting is not None and "$" in str(setting.value)
    per_node = None
    if setting is not None and not is_open:
        per_node = _spread(setting, entries, options, num_nodes)
    nodes = options.peek("nodes")
    counts = [option for option in (setting, nodes) if option is not None]
    return Allocation(
        per_node=per_node,
        num_nodes=num_nodes,
        features=tuple(features),
        counts=tuple(counts) if per_node is not None else (),
        names=tuple(names),
        slice_profile=profiles.pop() if len(profiles) == 1 else None,
        hint=partition if not types else None,
        remarks=(_warn_open(setting),) if setting is not None and is_open else (),
    )


def _warn_open(setting: Setting) -> str:
    """Return the warning of a number that a variable says."""
    return (
        f"{setting.where}: {setting.key} {setting.value} has a variable that nothing sets (#SBATCH "
        "lines have none at all): say the number of GPUs by layout"
    )


def count_nodes(options: Settings) -> int | None:
    """Return the fewest nodes that a job runs on: ``2-4`` is two.

    None where a variable says them.
    """
    nodes = _read_number(options, "nodes")
    if nodes or options.peek("nodes") is not None:
        return nodes or None
    tasks, per_node = _read_number(options, "ntasks"), _read_number(options, "ntasks_per_node")
    return ceil_div(tasks, per_node) if tasks and per_node else 1


def _find_entries(options: Settings) -> tuple[Setting | None, tuple[Gres, ...]]:
    """Return the option that counts GPUs, and what it names."""
    for name in _OPTIONS:
        setting = options.peek(name)
        text = "" if setting is None else str(setting.value)
        if name.startswith("gpus"):
            text = ",".join(f"gpu:{part}" for part in text.split(",") if part)
        if setting is not None and _NEGATIVE.search(text[:1024]):
            raise setting.refuse(f"a number of GPUs from 1 to {_MAX_GPUS:,}")
        plain = _VARIABLE.sub("", text[:1024])
        entries = tuple(entry for entry in read_gres(plain) if entry.kind == "gpu" and entry.count)
        if entries:
            return setting, entries
    return None, ()


def _spread(
    setting: Setting, entries: tuple[Gres, ...], options: Settings, num_nodes: int | None
) -> int | None:
    """Return the GPUs of a node, None where nodes are unlike."""
    number = sum(entry.count for entry in entries)
    if number > _MAX_GPUS:
        raise setting.refuse(f"a number of GPUs up to {_MAX_GPUS:,}")
    name = setting.key.lstrip("-").replace("-", "_")
    if name in PER_NODE:
        return number
    if name.endswith("per_socket"):
        return number * (_read_number(options, "sockets_per_node") or 1)
    if num_nodes is None:
        return None
    if name.endswith("per_task"):
        per_node = _read_number(options, "ntasks_per_node") or 1
        number *= _read_number(options, "ntasks") or per_node * num_nodes
    return None if number % num_nodes else number // num_nodes


def _read_number(options: Settings, name: str) -> int:
    """Return the first number of an option, 0 without one."""
    setting = options.peek(name)
    match = None if setting is None else _NUMBER.match(str(setting.value).strip())
    return 0 if match is None else int(match[1])


def _read_constraint(text: str) -> list[tuple[str, ...]]:
    """Return the features of a constraint: ``a&b``, ``a|b``, ``[a*2&b]``."""
    plain = _SIGNS.sub("", text[:1024]).replace("&", ",")
    parts = [part for part in plain.split(",") if part]
    return [tuple(_TIMES.sub("", word) for word in part.split("|") if word) for part in parts]
