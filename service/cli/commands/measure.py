"""Ask a server for a measurement and watch it to its end; Ctrl-C cancels it."""

import argparse
import sys
import time
import uuid
from collections.abc import Iterator

import httpx

from service.base.errors import InvalidRequestError, ServiceError
from service.cli.answer_source import Source
from service.cli.flags import add_question, build_workload
from service.cli.http import Document, add_server, ask, build_path, connect, find_server, read
from service.cli.ignored import refuse_ignored
from service.cli.launch.questions import add_launch, take_launch
from service.cli.model_files.naming import get_model
from service.cli.printing import print_json
from service.cli.schema_flags import translate_to_flags
from service.cli.views.artifacts import describe_artifacts
from service.cli.views.peak import iter_peak_tables
from service.cli.views.progress import ProgressBar, describe_plan, open_progress
from service.cli.views.tables import add_title, make_console, make_table, show_bytes
from service.cli.watching import follow
from service.jobs.artifacts import ArtifactName
from service.terminal.arguments import DOES_NOT_FIT, ERROR, FITS, format_choices, make_choice_reader

_ARTIFACTS = tuple(name.value for name in ArtifactName)
_DEVICES = ("cpu", "trace", "cuda")
_PRIORITIES = ("low", "normal", "high")
_NUM_LOOKS = 3
_LOOK_INTERVAL_S = 0.25
"""Within a second it is known that no worker comes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the question and the device, or an existing measurement."""
    add_question(parser)
    add_launch(parser)
    parser.add_argument(
        "--device",
        type=make_choice_reader(_DEVICES),
        metavar=format_choices(_DEVICES),
        help=(
            "where the probe runs (default cuda where a living worker has the GPU in question, "
            "else cpu)"
        ),
    )
    parser.add_argument("--gpu", help="the GPU that the answer is wanted for")
    parser.add_argument(
        "--full-depth", action="store_true", help="run every layer instead of slices"
    )
    parser.add_argument(
        "--rank",
        type=int,
        default=0,
        metavar="N",
        help="the rank of the layout that is run (default 0)",
    )
    parser.add_argument(
        "--priority",
        type=make_choice_reader(_PRIORITIES),
        metavar=format_choices(_PRIORITIES),
        default="normal",
        help="who goes first (default normal)",
    )
    parser.add_argument(
        "--artifact",
        action="append",
        type=make_choice_reader(_ARTIFACTS),
        metavar=format_choices(_ARTIFACTS),
        help=(
            "keep a file beside the numbers: the allocator's memory for "
            "https://pytorch.org/memory_viz (trace and cuda)"
        ),
    )
    _add_ways_to_wait(parser)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    add_server(parser)


def _add_ways_to_wait(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--wait",
        action="store_true",
        help="wait for a worker too where none that could run it is alive",
    )
    which.add_argument(
        "--no-wait",
        "--detach",
        dest="detach",
        action="store_true",
        help="print the measurement's id and do not wait",
    )
    which.add_argument(
        "--dry-run",
        action="store_true",
        help="say what would be run and how long, and measure nothing",
    )
    which.add_argument(
        "--watch", metavar="ID", help="watch a measurement that was asked for before"
    )
    which.add_argument("--cancel", metavar="ID", help="cancel a measurement")


def run(options: argparse.Namespace) -> int:
    """Submit, watch and print a measurement.

    The code is 0 when it was measured, 1 when it ran out of memory, 2 when there is no result, or
    no worker that could find one. After Ctrl-C it is the shell's 130.
    """
    for word in ("watch", "cancel"):
        if getattr(options, word):
            refuse_ignored(options, f"measure --{word}", takes=(word,))
    asks = not (options.watch or options.cancel)
    if asks:
        take_launch(options, Source(url=find_server(options.server)), evaluates=False)
    body = _build_request(options) if asks else None
    with connect(options.server) as client:
        if options.cancel:
            ask(client, "DELETE", build_path("measurements", options.cancel))
            return 0
        if options.dry_run:
            return _show_dry_run(client, body, as_json=options.json)
        measurement_id = options.watch
        if measurement_id is None:
            submitted = _post(client, body)
            measurement_id = str(submitted["id"])
            if not options.wait and _is_stranded(client, submitted, keeps=options.detach):
                return ERROR
        if options.detach:
            sys.stdout.write(f"{measurement_id}\n")
            return 0
        result = _watch(client, measurement_id, cancels_on_interrupt=options.watch is None)
    print_json(result) if options.json else _show(result)
    return _get_exit_code(result)


def _build_request(options: argparse.Namespace) -> Document:
    body: Document = {
        "model": get_model(options),
        **build_workload(options),
        "priority": options.priority,
    }
    if options.device:
        body["device"] = options.device
    if options.gpu:
        body["gpu"] = options.gpu
    if options.full_depth:
        body["full_depth"] = True
    if options.rank:
        body["rank"] = options.rank
    if options.artifact:
        body["artifacts"] = options.artifact
    return body


def _show_dry_run(client: httpx.Client, body: Document | None, *, as_json: bool) -> int:
    """Print what would be run.

    The code is 2 when the probe would refuse.
    """
    plan = _post(client, {**(body or {}), "dry_run": True})
    if as_json:
        print_json(plan)
    elif plan["problem"] is not None:
        make_console().print(f"the probe would refuse: {plan['problem']['detail']}", soft_wrap=True)
    else:
        make_console().print(describe_plan(plan), highlight=False, soft_wrap=True)
        if plan["worker"] is not None:
            make_console().print(
                f"as fast as worker {plan['worker']} was at {plan['told_at']}",
                highlight=False,
                soft_wrap=True,
            )
    return FITS if plan["problem"] is None else ERROR


def _is_stranded(client: httpx.Client, measurement: Document, *, keeps: bool) -> bool:
    """Return whether no living worker can run a measurement, which is cancelled then.

    With ``keeps`` it stays queued. Either way stderr says what to start.
    """
    path = build_path("measurements", measurement["id"])
    for _ in range(_NUM_LOOKS):
        if measurement["status"] != "queued" or not measurement["warnings"]:
            return False
        # A worker that was started just now may not have registered yet.
        time.sleep(_LOOK_INTERVAL_S)
        measurement = read(client, path)
    if not measurement["warnings"]:
        return False
    for warning in measurement["warnings"]:
        sys.stderr.write(f"measurement {measurement['id']} {warning}\n")
    if keeps:
        return False
    try:
        ask(client, "DELETE", path)
    except ServiceError:
        # A worker came between the look and the request, and has ended it: there is a result.
        return False
    sys.stderr.write("it was cancelled; --wait waits for such a worker\n")
    return True


def _post(client: httpx.Client, body: object) -> Document:
    # A key makes the request safe to repeat, for the transport as well.
    try:
        answer = ask(
            client,
            "POST",
            build_path("measurements"),
            body=body,
            headers={"idempotency-key": str(uuid.uuid4())},
        )
    except ServiceError as error:
        raise InvalidRequestError(translate_to_flags(error.detail)) from error
    document: Document = answer.json()
    return document


def _watch(client: httpx.Client, measurement_id: str, *, cancels_on_interrupt: bool) -> Document:
    """Follow a measurement to its end.

    Ctrl-C cancels one that this command asked for, and leaves another alone.
    """
    path = build_path("measurements", measurement_id)
    with open_progress() as (bar, task):
        view = ProgressBar(bar=bar, task=task)
        try:
            return follow(client, path, view)
        except KeyboardInterrupt:
            if not cancels_on_interrupt:
                view.print_line(
                    f"measurement {measurement_id} goes on; `headroom measure --watch "
                    f"{measurement_id}` takes it up again"
                )
                raise
            ask(client, "DELETE", path)
            view.print_line(
                f"asked to cancel measurement {measurement_id}; waiting for its end, Ctrl-C again "
                "does not"
            )
            measurement = follow(client, path, view)
            view.print_line(f"measurement {measurement_id} is {measurement['status']}")
            raise


def _get_exit_code(result: Document) -> int:
    if result["status"] != "succeeded":
        return ERROR
    return DOES_NOT_FIT if result["peaks"]["out_of_memory"] else FITS


def _show(result: Document) -> None:
    screen = make_console()
    title = (
        f"measurement {result['id']} {result['status']} on {result['device']} in attempt "
        f"{result['attempt']}"
    )
    if result["status"] != "succeeded":
        screen.print(title)
        screen.print((result["problem"] or {}).get("detail", ""))
        return
    rows = [
        (instant["name"], show_bytes(instant["allocated_bytes"])) for instant in result["instants"]
    ]
    screen.print(add_title(title, make_table(("instant", "allocated"), rows, right=("allocated",))))
    for part in iter_peak_tables(result):
        screen.print(part)
    for line in _iter_findings(result):
        screen.print(line)


def _iter_findings(result: Document) -> Iterator[str]:
    peaks, prediction = result["peaks"], result["prediction"]
    depth = "extrapolated from slices" if result["extrapolated"] else "measured at full depth"
    yield f"peak allocated {show_bytes(peaks['allocated_bytes'])}, {depth}" + (
        ", out of memory" if peaks["out_of_memory"] else ""
    )
    if peaks.get("reserved_bytes") is not None:
        yield f"peak reserved {show_bytes(peaks['reserved_bytes'])}"
    if peaks.get("process_rss_bytes") is not None:
        yield f"peak of the process {show_bytes(peaks['process_rss_bytes'])}"
    if prediction is not None:
        yield (
            f"predicted {show_bytes(prediction['allocated_bytes'])}, off by "
            f"{prediction['error']:+.2%}"
        )
    if result["step_time_s"] is not None:
        yield f"step time {result['step_time_s']['median']:.3g} s in the median"
    prefills = [run["prefill_time_s"] for run in result["probes"] if run.get("prefill_time_s")]
    if prefills and not result["extrapolated"]:
        yield f"prefill {prefills[-1]['median']:.3g} s in the median"
    if result["calibration"] is not None:
        yield f"calibration {result['calibration']}: the next fit of this kind rests on it"
    yield from result["notes"]
    yield from describe_artifacts(result)
