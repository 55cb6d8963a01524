"""Progress bar of a measurement on stderr."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column

from service.cli.http import Document
from service.cli.views.tables import Screen
from service.terminal.controls import spell_controls

_STATUS_WIDTH = len("succeeded")
_BAR_WIDTH = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressBar:
    """Progress bar of a measurement on stderr.

    It shows the phase in words.
    """

    bar: Progress
    task: TaskID

    def state(self, measurement: Document) -> None:
        """Show the status, phase and progress of a measurement."""
        self._update(measurement["status"], measurement["phase"], measurement["progress"])

    def event(self, kind: str, data: Document) -> None:
        """Show one event; samples are skipped."""
        if kind == "progress":
            text = f"{data['phase']} {data.get('reading', '')}".strip()
            self._update(data.get("status", "running"), text, data["progress"])
        elif kind == "plan":
            self.print_line(describe_plan(data))
        elif kind == "status":
            # An attempt that was lost begins again from nothing.
            fraction = 1.0 if data["status"] == "succeeded" else 0.0
            text = "starting the probe" if data["status"] == "running" else data.get("reason", "")
            self._update(data["status"], text, fraction)

    def away(self, reason: str) -> None:
        """Show that the server does not answer for now."""
        self.bar.update(
            self.task,
            description=spell_controls(f"the server does not answer ({reason}); trying again"),
        )

    def print_line(self, sentence: str) -> None:
        """Print a line above the bar."""
        self.bar.console.print(sentence, highlight=False, soft_wrap=True)

    def _update(self, status: str, text: str, fraction: float) -> None:
        self.bar.update(
            self.task, description=spell_controls(text), status=status, completed=fraction
        )


def describe_plan(plan: Document) -> str:
    """Return the planned runs in words."""
    runs = [
        f"  {run['num_layers']} layers, {run['micro_batch_size']} x {run['sequence_length']} "
        f"tokens: {run['why']} (about {run['expected_s']:.2g} s)"
        for run in plan["runs"]
    ]
    number = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
    return "\n".join([f"plan: {number}, about {plan['expected_s']:.2g} s", *runs, *plan["notes"]])


@contextmanager
def open_progress() -> Iterator[tuple[Progress, TaskID]]:
    """Show a bar until the block ends."""
    columns = (
        TextColumn(
            "{task.fields[status]:<9}", table_column=Column(no_wrap=True, min_width=_STATUS_WIDTH)
        ),
        BarColumn(bar_width=_BAR_WIDTH),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
    )
    # On stderr, so that what is piped is the result alone.
    with Progress(
        *columns, TextColumn("{task.description}", markup=False), console=Screen(stderr=True)
    ) as bar:
        yield bar, bar.add_task("", total=1.0, status="queued")
