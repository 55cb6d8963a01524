"""Options of Slurm's jobs: ``#SBATCH`` lines, and those of a step.

``sbatch`` of Slurm 26.05 (its manual page, and ``src/sbatch/opt.c``).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from service.formats.command_words import split_words
from service.formats.launches.sources.argv import Grammar, read_argv
from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.settings import Setting, Settings

SLURM = Grammar(
    short={
        "A": "account",
        "B": "extra_node_info",
        "C": "constraint",
        "D": "chdir",
        "E": "preserve_env",
        "F": "nodefile",
        "G": "gpus",
        "H": "hold",
        "I": "immediate",
        "J": "job_name",
        "K": "kill_on_bad_exit",
        "L": "licenses",
        "M": "clusters",
        "N": "nodes",
        "O": "overcommit",
        "Q": "quiet",
        "S": "core_spec",
        "T": "threads",
        "X": "disable_status",
        "Z": "no_allocate",
        "a": "array",
        "b": "begin",
        "c": "cpus_per_task",
        "d": "dependency",
        "e": "error",
        "i": "input",
        "k": "no_kill",
        "l": "label",
        "m": "distribution",
        "n": "ntasks",
        "o": "output",
        "p": "partition",
        "q": "qos",
        "r": "relative",
        "s": "oversubscribe",
        "t": "time",
        "u": "unbuffered",
        "v": "verbose",
        "w": "nodelist",
        "x": "exclude",
        "tasks-per-node": "ntasks_per_node",
    },
    flags=frozenset(
        {
            *("label", "exclusive", "unbuffered", "overlap", "requeue", "contiguous", "verbose"),
            *("preserve_env", "hold", "immediate", "kill_on_bad_exit", "overcommit", "quiet"),
            *("disable_status", "no_allocate", "no_kill", "oversubscribe", "exact", "nice"),
            *("multi_prog", "pty", "spread_job", "test_only", "use_min_nodes", "reboot"),
        }
    ),
    has_clusters=True,
)
"""Options of ``sbatch``, ``srun`` and ``salloc``.

Slurm 26.05, ``src/common/slurm_opt.c``; what has an optional value takes it after ``=``.
"""

SBATCH = replace(
    SLURM,
    short={**SLURM.short, "W": "wait"},
    flags=SLURM.flags | {"wait", "parsable", "ignore_pbs", "get_user_env"},
)
"""Options of ``sbatch``, which waits for a job's end where ``srun`` is told seconds."""
COUNTS = ("nodes", "ntasks", "ntasks_per_node")
_DIRECTIVE = re.compile(r"#SBATCH[ \t]+(.*)")
_NUMBER = re.compile(r"[0-9]{1,3}", re.ASCII)
_SEPARATORS = frozenset({"hetjob", "packjob"})
"""What stands between components of a heterogeneous job; the latter until Slurm 19.05."""
_SHEBANG = re.compile(r"\n(?=#!)")
MAX_DOCUMENTS = 64
"""Scripts within a script; one that submits a chain of jobs has a few."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmOptions:
    """Options of each component of a job.

    There are several where it is heterogeneous. ``remarks`` say what of the script's lines does
    not count.
    """

    components: tuple[Settings, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def first(self) -> Settings:
        """Options of the component that the script itself runs on."""
        return self.components[0] if self.components else Settings()

    def choose(self, group: Setting | None) -> tuple[Settings, tuple[str, ...]]:
        """Return the options of the component that ``srun`` names, and remarks."""
        match = None if group is None else _NUMBER.match(str(group.value))
        number = 0 if match is None else int(match[0])
        if number >= len(self.components) or not self.components[1:]:
            return self.first, self.remarks
        why = "on which the script runs" if match is None else "which srun names"
        remark = (
            f"of the {len(self.components)} components of a heterogeneous job number {number} "
            f"counts, {why}"
        )
        return self.components[number], (*self.remarks, remark)


def read_jobs(name: str, text: str) -> dict[int, SlurmOptions]:
    """Return the options of a script's job and its submitted ones.

    The latter are by the lines that hand a here-document to ``sbatch``, the script's own by 0; a
    script without any has those of its first such document.
    """
    documents = list(islice(_iter_documents(text), MAX_DOCUMENTS + 1))
    if len(documents) > MAX_DOCUMENTS:
        message = f"the script has more than {MAX_DOCUMENTS} scripts in it; send one of them"
        raise LaunchFormatError(message, where=name)
    header = text[: documents[0][0]] if documents else text
    ends = [start for start, _ in documents[1:]] + [len(text)]
    jobs = {
        text.count("\n", 0, start) + 1: read_directives(name, text[begin:end])
        for (start, begin), end in zip(documents, ends, strict=False)
    }
    first = read_directives(name, header)
    return {0: first if first.components else next(iter(jobs.values()), first), **jobs}


def _iter_documents(text: str) -> Iterator[tuple[int, int]]:
    """Yield where scripts within a script are handed over and begin.

    Each is a here-document (``<<``) whose first line names a program.
    """
    for match in _SHEBANG.finditer(text):
        end = match.start()
        start = text.find("<<", text.rfind("\n", 0, end) + 1, end)
        if start >= 0:
            yield start, match.end()


def read_directives(name: str, text: str) -> SlurmOptions:
    """Return the options of a script's ``#SBATCH`` lines.

    Those after the first command are comments.
    """
    lines, late = _split_header(text)
    remark = f"{name}: Slurm takes #SBATCH lines after the first command for comments"
    groups: list[list[str]] = [[]]
    for line in lines:
        tokens = _split_directive(line)
        if tokens[:1] and tokens[0] in _SEPARATORS:
            groups.append([])
        groups[-1] += [word for word in tokens if word not in _SEPARATORS]
    where = f"{name}, #SBATCH"
    if not lines:
        return SlurmOptions(remarks=(remark,) if late else ())
    components = tuple(bound_nodes(read_argv(group, SBATCH, where=where)) for group in groups)
    return SlurmOptions(components=components, remarks=(remark,) if late else ())


def list_slurm_variables(slurm: Settings) -> dict[str, str]:
    """Return what Slurm tells a script of its options (``sbatch``, OUTPUT ENVIRONMENT)."""
    values = {name: str(entry.value) for name in COUNTS if (entry := slurm.peek(name)) is not None}
    variables: dict[str, str] = {}
    gpus = next(filter(None, map(slurm.peek, ("gpus_per_node", "gres", "tres_per_node"))), None)
    if gpus is not None and "ntasks" not in values:
        # A job of one task runs on one node.
        values.setdefault("nodes", "1")
    if "nodes" in values:
        variables |= dict.fromkeys(("SLURM_NNODES", "SLURM_JOB_NUM_NODES"), values["nodes"])
    if "ntasks" in values:
        variables["SLURM_NTASKS"] = values["ntasks"]
    if "ntasks_per_node" in values:
        variables["SLURM_NTASKS_PER_NODE"] = values["ntasks_per_node"]
    count = "" if gpus is None else _count_gpus(str(gpus.value))
    if count.isdecimal():
        variables |= dict.fromkeys(("SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"), count)
    return variables


def join_options(typed: Settings | None, job: Settings) -> Settings:
    """Return a job's options, of which the typed ones win.

    Neither is accounted for by being looked at.
    """
    options = {name: entry for name in job if (entry := job.peek(name)) is not None}
    if typed is not None:
        options |= {name: entry for name in typed if (entry := typed.peek(name)) is not None}
    return Settings(options)


def add_counts(steps: Settings, job: Settings) -> Settings:
    """Return the options of ``srun`` with its job's numbers."""
    counts = {name: entry for name in COUNTS if (entry := job.peek(name)) is not None}
    return steps.merge(Settings(counts))


def bound_nodes(options: Settings) -> Settings:
    """Return options with the fewest nodes, of ``2-4`` two."""
    settings = options.take_all()
    nodes = settings.get("nodes")
    if nodes is not None:
        settings["nodes"] = replace(nodes, value=str(nodes.value).partition("-")[0])
    return Settings(settings)


def _split_header(text: str) -> tuple[list[str], bool]:
    """Return the directives before the first command, and whether any come later."""
    header: list[str] = []
    lines = iter(text.splitlines())
    for line in lines:
        if line.strip() and not line.lstrip().startswith("#"):
            break
        if (match := _DIRECTIVE.match(line)) is not None:
            header.append(match[1])
    return header, any(_DIRECTIVE.match(line) for line in lines)


def _split_directive(text: str) -> list[str]:
    """Return the words of a directive, without a comment."""
    try:
        return split_words(text, comments=True)
    except ValueError:
        return text.partition("#")[0].split()


def _count_gpus(text: str) -> str:
    """Return the number in ``gpu:a100:4,lscratch:100``, empty without one."""
    parts = [part.split("(")[0] for part in text.split(",")]
    gpus = [part for part in parts if part.startswith(("gpu", "gres/gpu"))] or parts[:1]
    number = gpus[0].rpartition(":")[2] if gpus else ""
    if number.isdecimal():
        return number
    return "1" if number.isidentifier() else ""
