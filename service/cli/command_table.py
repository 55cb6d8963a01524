"""Commands by name, each loaded when it is asked for."""

from difflib import get_close_matches
from importlib import import_module
from types import ModuleType

from service.base.errors import InvalidRequestError
from service.terminal.arguments import Parser

COMMANDS = {
    "up": "start everything, embedded, in the foreground",
    "serve": "run the HTTP API against DATABASE_URL and REDIS_URL",
    "worker": "run a worker that measures",
    "reconcile": "run the loop that re-rings and re-queues jobs",
    "kueue": "run the controller for Kueue: gates of jobs, and AdmissionChecks",
    "collect": "send what pods used of a node's GPUs, once they have ended",
    "migrate": "bring the database to this version's schema",
    "backup": "write the database to a file, while everything runs",
    "restore": "fill a database from a backup",
    "prune": "delete old progress, samples, artifacts, changes and decisions",
    "fit": "does a workload fit on a GPU? answers offline, or a server",
    "how-many": "how many GPUs does it need? the same",
    "plan": "which GPUs, how many, in which layout? the same",
    "slurm-flags": "sbatch's options of the fewest GPUs that a launch needs; the same",
    "submit": "reserve a plan's GPUs, submit it to a scheduler, end both together",
    "ceilings": ("how large may a batch, a sequence, a load, an adapter or a model be? the same"),
    "generate": "does a call of a diffusers pipeline fit? the same",
    "explain": "why did a run fail for memory, and what would have fitted? the same",
    "gpus": "list and show the GPUs that questions may name",
    "formats": "list the formats of schedulers that a job is rendered in",
    "families": "list the families of models, and what is modelled of each",
    "pipelines": "list, show and record pipelines of diffusers",
    "models": "list, show, store and delete models",
    "clusters": "list, show, store and delete clusters",
    "reservations": "list, show, make, extend and release reservations of GPUs",
    "keys": "make, list and revoke keys",
    "audit": "list the changes that were asked for, and by whom",
    "hooks": "list what schedulers' hooks decided about submitted jobs",
    "workers": "list the workers of a server, and what they do now",
    "measure": "ask for a measurement and watch it",
    "measurements": "list, show, export and import measurements",
    "field-data": "who handed in measurements: approve or withdraw them",
    "accuracy": "how far answers were from measurements, before and after calibration",
    "calibrations": "list what was learnt from measurements, measure it again",
    "mcp": "serve tools for language models over stdin and stdout",
    "completion": "print or install the completion of a shell",
    "help": "show what a command takes",
    "version": "print the version",
}
"""Command → one line of help."""
_FOLDERS = {
    **dict.fromkeys(
        ("audit", "families", "field-data", "formats", "gpus", "hooks", "workers"), "lists."
    ),
    **dict.fromkeys(("generate", "pipelines"), "diffusion."),
    **dict.fromkeys(("backup", "restore"), "database."),
    **dict.fromkeys(("collect", "kueue", "slurm-flags", "submit"), "schedulers."),
    **dict.fromkeys(("completion", "help", "version"), "about."),
}
"""Folders of commands that do not lie in ``service.cli.commands`` itself."""
REFUSALS = {"slurm-flags": "--refused-by-headroom"}
"""What commands print whose output a shell puts into a line, where they have no answer.

A shell drops the exit status of ``$(…)``: sbatch does not know this option, and would submit the
job without any GPUs if nothing stood there.
"""


def load_command(name: str) -> ModuleType:
    """Return the module of a command; raises InvalidRequestError with the nearest."""
    if name not in COMMANDS:
        near = get_close_matches(name, COMMANDS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        message = f"there is no command {name!r}.{hint} Commands: {', '.join(COMMANDS)}."
        raise InvalidRequestError(message)
    return import_module(f"service.cli.commands.{_FOLDERS.get(name, '')}{name.replace('-', '_')}")


def build_parser(name: str) -> Parser:
    """Return the parser of a command."""
    module = load_command(name)
    parser = Parser(prog=f"headroom {name}", description=module.__doc__)
    module.add_arguments(parser)
    return parser


def render_overview() -> str:
    """Return the list of all commands."""
    lines = [f"  {name:<12} {text}" for name, text in COMMANDS.items()]
    return "\n".join(
        [
            "usage: headroom COMMAND …",
            "",
            *lines,
            "",
            "`headroom COMMAND --help` shows what a command takes.",
            "",
        ],
    )
