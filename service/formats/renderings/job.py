"""A job to render: workload, layout and GPUs by their names.

Every scheduler calls a GPU by another name.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from service.estimator.model.architecture import Architecture
from service.estimator.values.device import Device
from service.estimator.values.layout import Layout
from service.estimator.values.units import ceil_div
from service.estimator.values.workload import Engine, ServeWorkload, Workload

HEAD_ADDRESS, NODE_RANK = "${HEAD_ADDRESS}", "${NODE_RANK}"
"""What a command on several nodes reads from its environment; each scheduler's rendering sets both.
"""
CHECKPOINT, DRAFT = "${CHECKPOINT:?}", "${DRAFT:?}"
"""What is loaded where only who asks knows it: a shell stops where they are not set."""
_MAX_NAME = 40
NVIDIA = "nvidia"


class UnrenderableError(ValueError):
    """A job that a format cannot carry.

    The message says why, and what carries it.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuNames:
    """Aliases of a SKU, the best one first.

    ``aliases`` are by who uses them: ``gfd``, ``nvml``, ``ray``, ``skypilot``, ``slurm``.

    ``has_fabric``: those of one node reach each other over NVLink or its like, not over PCIe.
    """

    name: str
    family: str
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    has_fabric: bool = False

    def get_first(self, group: str) -> str | None:
        """Return the best name in a group; None where it has none."""
        return next(iter(self.aliases.get(group, ())), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuKind:
    """A kind of GPU, and what a job needs of each.

    ``needed_bytes`` are those that must fit at the upper end of the answer's interval.
    """

    device: Device
    names: GpuNames | None
    needed_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatOptions:
    """Names and queues of an installation.

    ``queue``: where the job waits. ``topology``: label of the level of nodes, such as a rack, that
    keeps those together that share layers. ``gate``: it is held until its gate is taken away.
    ``namespace`` and ``name``: those of its objects.
    """

    queue: str | None = None
    topology: str | None = None
    gate: bool = False
    namespace: str | None = None
    name: str | None = None

    def list_set_names(self) -> tuple[str, ...]:
        """Return the names of the options that have a value."""
        return tuple(row.name for row in fields(self) if getattr(self, row.name))


NO_OPTIONS = FormatOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobNames:
    """Names of a job and its parts, beside its configuration.

    ``model_name`` is the model's in the request, by which rendered objects are called.

    ``checkpoints``: ids on the Hugging Face hub of weights of its shape; launchers are told to load
    the first.

    ``image``: that of its containers, None where a published one will do.

    ``options``: what the installation calls things.
    """

    model_name: str
    checkpoints: tuple[str, ...] = ()
    image: str | None = None
    options: FormatOptions = NO_OPTIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A complete configuration.

    ``gpu`` is None where the request told a GPU's memory alone.

    ``model_name`` is the name of rendered objects; ``checkpoints`` and ``draft_checkpoints`` are
    ids on the Hugging Face hub of weights of that shape, none where nobody told.

    ``nodes``: names of the nodes that it was placed on, and ``gpus_of_each`` the number of GPUs
    that a replica has on each of them.

    ``mig_profile``: each GPU is such a slice.

    ``host_bytes_per_node``: what the answer keeps in the memory of a node of the layout.

    ``image``: that of its containers, in place of a published one.

    ``needed_bytes``: what must fit on each GPU, at the upper end of the answer's interval.

    ``substitutes``: other GPUs on which the very same launch is a plan, the best first.

    ``known_gpus``: every GPU whose memory is known, where ``gpu`` is None.

    ``options``: what the installation that it is rendered for calls things.

    ``prefill_share``: of the time of a server's requests, what their prompts take; None where times
    are not known.
    """

    model_name: str
    checkpoints: tuple[str, ...] = ()
    draft_checkpoints: tuple[str, ...] = ()
    model: Architecture
    workload: Workload
    layout: Layout
    device: Device
    gpu: GpuNames | None = None
    nodes: tuple[str, ...] = ()
    gpus_of_each: int | None = None
    mig_profile: str | None = None
    host_bytes_per_node: int = 0
    image: str | None = None
    needed_bytes: int
    substitutes: tuple[GpuKind, ...] = ()
    known_gpus: tuple[GpuKind, ...] = ()
    options: FormatOptions = NO_OPTIONS
    prefill_share: float | None = None

    @property
    def name(self) -> str:
        """A name that Kubernetes takes (RFC 1123): lower case, digits and hyphens.

        It is made of the model's where none is said.
        """
        if self.options.name is not None:
            return self.options.name
        kind = "serve" if isinstance(self.workload, ServeWorkload) else "train"
        slug = (
            re.sub(r"[^a-z0-9]+", "-", self.model_name.casefold()).strip("-")[:_MAX_NAME].strip("-")
        )
        return f"{slug or 'model'}-{kind}"

    @property
    def vendor(self) -> str:
        """The GPU's vendor.

        NVIDIA where only a memory is known: its labels tell a GPU's.
        """
        return NVIDIA if self.gpu is None else self.device.vendor

    @property
    def is_server(self) -> bool:
        """Whether it runs until it is stopped.

        A script of transformers ends by itself.
        """
        workload = self.workload
        return isinstance(workload, ServeWorkload) and workload.engine is not Engine.TRANSFORMERS

    @property
    def replicas(self) -> int:
        """Copies that share nothing: serving replicas, unless experts are spread over them."""
        is_independent = (
            isinstance(self.workload, ServeWorkload) and self.layout.expert_parallel == 1
        )
        return self.layout.data_parallel if is_independent else 1

    @property
    def gpus(self) -> int:
        """GPUs of one replica."""
        return self.layout.num_gpus // self.replicas

    @property
    def num_nodes(self) -> int:
        """Nodes of one replica.

        They are those that it was placed on, else as few as hold equally many GPUs each.
        """
        if self.gpus_of_each is not None:
            return self.gpus // self.gpus_of_each
        fewest = ceil_div(self.gpus, self.layout.gpus_per_node)
        return next(nodes for nodes in range(fewest, self.gpus + 1) if self.gpus % nodes == 0)

    @property
    def gpus_per_node(self) -> int:
        """GPUs of one replica on each of its nodes."""
        return self.gpus // self.num_nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Command, files and environment that start one replica.

    The command is that of each node, which reads the files; ``notes`` are what no flag of it says.

    ``objects``: keyword arguments of the library calls that a script makes, by the name of what is
    called.
    """

    command: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    objects: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
