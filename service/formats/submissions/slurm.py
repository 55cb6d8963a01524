"""Jobs of Slurm as submissions: what ``cli_filter`` is shown.

Options have the names and spellings of ``slurm.json_cli_options`` of Slurm 26.05, in which the
``#SBATCH`` lines of the script are options already.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from service.estimator.values.units import ceil_div
from service.formats.gpu_requests.gres import Gres, read_gres
from service.formats.inventories.documents import Json, get_text
from service.formats.submissions.submission import (
    GpuRequest,
    Submission,
    SubmissionError,
    find_note,
    split_names,
)

_MAX_GPUS = 65_536
"""More than any job has; a larger number is a mistake that Slurm refuses."""
_MARK = "headroom:"
"""Begin of a comment that holds a question."""
_NAMED = re.compile(r" ?headroom-question=[0-9a-f]*")
"""Part of a comment that names the question which was answered."""
_COUNTS = ("nodes", "ntasks", "ntasks-per-node")
_NUMBER = re.compile(r"([0-9]{1,9})([km]?)", re.IGNORECASE | re.ASCII)
_UNITS = {"": 1, "k": 1024, "m": 1024**2}
_DIRECTIVE = re.compile(r"^#SBATCH", re.MULTILINE)
_HEADER = re.compile(r"((?:(?!##SBATCH)[ \t]*(?:#.*)?\n)*)##SBATCH.*")
_SHEBANG = re.compile(r"\A(?:#!.*\n)?")
_GPU_OPTIONS = (
    "gpus-per-node",
    "gres",
    "gpus",
    "gpus-per-task",
    "tres-per-task",
    "gpus-per-socket",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJob:
    """A job as a submission.

    ``option`` is the one option that says the number of its GPUs, ``None`` where none or several
    do; ``before`` and ``after`` are the text around the number.
    """

    submission: Submission
    option: str | None = None
    before: str = ""
    after: str = ""


def read_options(
    command: str,
    options: Json,
    *,
    script: str | None = None,
    user: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> SlurmJob:
    """Return what ``sbatch``, ``srun`` or ``salloc`` is about to submit.

    ``environment`` is the submitter's, of which the job gets what ``--export`` lets through.

    Raises SubmissionError for numbers that no job has.
    """
    num_nodes = _count_nodes(options)
    gpus = _read_gpus(options, num_nodes)
    variables = _read_export(get_text(options, "export"), environment or {})
    wrapped = get_text(options, "wrap")
    text = f"#!/bin/sh\n{wrapped}\n" if wrapped else script
    option, before, after = _find_number(options)
    return SlurmJob(
        submission=Submission(
            scheduler="slurm",
            name=get_text(options, "job-name") or None,
            user=user or None,
            queue=get_text(options, "partition") or get_text(options, "account") or None,
            gpus=gpus,
            note=find_note(variables) or _read_comment(options) or find_note({}, text),
            command=_read_command(command, options),
            script=None if text is None else _settle_directives(text, options),
            environment=variables,
            # More of a node is a number; more nodes are processes that find each other otherwise,
            # and slices do not reach each other.
            can_change=option is not None and num_nodes == 1 and not (gpus and gpus.is_sliced),
        ),
        option=option,
        before=before,
        after=after,
    )


def make_options(job: SlurmJob, per_node: int) -> dict[str, str]:
    """Return the option that gives a job another number of GPUs."""
    if job.option is None:
        message = "no one option says how many GPUs this job has, so that it cannot be changed"
        raise SubmissionError(message, field="options")
    return {job.option: f"{job.before}{per_node}{job.after}"}


def make_comment(options: Json, digest: str) -> str:
    """Return the comment of a job, which names its question.

    Slurm tells it to the epilog, by which nodes know what ran.
    """
    comment = _NAMED.sub("", get_text(options, "comment")).strip()
    return f"{comment} headroom-question={digest}".strip()


def _read_gpus(options: Json, num_nodes: int) -> GpuRequest | None:
    """Return the GPUs of a job; None where it asks for none."""
    per_node = _read_entries(options, "gpus-per-node") or _read_entries(options, "gres")
    if per_node:
        return _make_request(per_node, _sum(per_node), num_nodes)
    entries = _read_entries(options, "gpus")
    if entries:
        return _spread(entries, _sum(entries), num_nodes)
    entries = _read_entries(options, "gpus-per-task") or _read_entries(options, "tres-per-task")
    if entries:
        return _spread(entries, _sum(entries) * _count_tasks(options, num_nodes), num_nodes)
    entries = _read_entries(options, "gpus-per-socket")
    if entries:
        sockets = _read_number(options, "sockets-per-node") or 1
        return _make_request(entries, _sum(entries) * sockets, num_nodes)
    return None


def _read_entries(options: Json, name: str) -> tuple[Gres, ...]:
    """Return the GPUs that an option names; ``gres`` may name others."""
    text = get_text(options, name)
    if name.startswith("gpus"):
        text = ",".join(f"gpu:{part}" for part in text.split(",") if part)
    entries = (entry for entry in read_gres(text) if entry.kind == "gpu")
    return tuple(entry for entry in entries if entry.count)


def _sum(entries: tuple[Gres, ...]) -> int:
    return sum(entry.count for entry in entries)


def _spread(entries: tuple[Gres, ...], total: int, num_nodes: int) -> GpuRequest:
    """Return GPUs of a job that says only their sum."""
    if total % num_nodes:
        return _make_request(entries, total, 1)
    return _make_request(entries, total // num_nodes, num_nodes)


def _make_request(entries: tuple[Gres, ...], per_node: int, num_nodes: int) -> GpuRequest:
    if per_node * num_nodes > _MAX_GPUS:
        message = f"the job asks for {per_node * num_nodes:,} GPUs; no job has over {_MAX_GPUS:,}"
        raise SubmissionError(message, field="options")
    names, profile = split_names((entry.type for entry in entries if entry.type), field="options")
    return GpuRequest(per_node=per_node, num_nodes=num_nodes, names=names, slice_profile=profile)


def _count_nodes(options: Json) -> int:
    """Return the fewest nodes that a job runs on: ``2-4`` is two."""
    nodes = _read_number(options, "nodes")
    if nodes:
        return nodes
    tasks, per_node = _read_number(options, "ntasks"), _read_number(options, "ntasks-per-node")
    return ceil_div(tasks, per_node) if tasks and per_node else 1


def _count_tasks(options: Json, num_nodes: int) -> int:
    """Return tasks of a job, one a node by default."""
    per_node = _read_number(options, "ntasks-per-node") or 1
    return _read_number(options, "ntasks") or per_node * num_nodes


def _read_number(options: Json, name: str) -> int:
    """Return the first number of an option, 0 without one."""
    match = _NUMBER.match(get_text(options, name))
    return 0 if match is None else int(match[1]) * _UNITS[match[2].casefold()]


def _find_number(options: Json) -> tuple[str | None, str, str]:
    """Return the option that counts GPUs, and the text around it."""
    names = [name for name in _GPU_OPTIONS if _read_entries(options, name)]
    if len(names) != 1 or names[0] not in {"gpus-per-node", "gres", "gpus"}:
        return None, "", ""
    [name] = names
    entries = _read_entries(options, name)
    if len(entries) != 1:
        return None, "", ""
    kind = entries[0].type and f"{entries[0].type}:"
    if name != "gres":
        return name, kind, ""
    # Slurm writes gres/gpu:4 where its user wrote gpu:4, and takes both.
    others = [part for part in get_text(options, name).split(",") if not _is_gpu(part)]
    return name, f"gpu:{kind}", "".join(f",{part.removeprefix('gres/')}" for part in others)


def _is_gpu(part: str) -> bool:
    return any(entry.kind == "gpu" for entry in read_gres(part))


def _read_export(export: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a job, as far as they are known.

    A value may hold no comma: Slurm takes what follows one for the next variable.
    """
    parts = [part.strip() for part in export.split(",") if part.strip()]
    names = {part for part in parts if "=" not in part}
    all_pass = not parts or "ALL" in names
    passed = {name: value for name, value in environment.items() if all_pass or name in names}
    pairs = (part.partition("=") for part in parts if "=" in part)
    return passed | {name: value for name, _, value in pairs}


def _read_comment(options: Json) -> str | None:
    comment = _NAMED.sub("", get_text(options, "comment")).strip()
    return comment.removeprefix(_MARK).strip() or None if comment.startswith(_MARK) else None


def _read_command(command: str, options: Json) -> tuple[str, ...]:
    """Return a job's command line, with the numbers of its tasks.

    That of a script is the script itself, with arguments if it has any.
    """
    argv = options.get("argv")
    arguments = (
        tuple(argument for argument in argv if isinstance(argument, str))
        if isinstance(argv, list)
        else ()
    )
    if command == "srun" and arguments:
        return ("srun", *_iter_counts(options), *arguments)
    has_arguments = command == "sbatch" and len(arguments) > 1
    return ("bash", "job.sh", *arguments[1:]) if has_arguments else ()


def _settle_directives(script: str, options: Json) -> str:
    """Return a script whose ``#SBATCH`` lines are the options that hold.

    What is typed wins over what the script says, and Slurm has settled which is which.
    """
    texts = {name: get_text(options, name) for name in ("gpus-per-node", "gres", "constraint")}
    arguments = [*_iter_counts(options)]
    arguments += [shlex.quote(f"--{name}={text}") for name, text in texts.items() if text]
    settled = _DIRECTIVE.sub("##SBATCH", script)
    if not arguments:
        return settled
    line = f"#SBATCH {' '.join(arguments)}"
    # Slurm reads them before the first command alone; in place of one, lines keep their numbers.
    if (header := _HEADER.match(settled)) is not None:
        return f"{header[1]}{line}{settled[header.end() :]}"
    return _SHEBANG.sub(lambda begin: f"{begin[0]}{line}\n", settled, count=1)


def _iter_counts(options: Json) -> Iterator[str]:
    for name in _COUNTS:
        number = _read_number(options, name)
        if number:
            yield f"--{name}={number}"
