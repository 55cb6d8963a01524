"""Bring a plan to a scheduler: reserve its GPUs, submit the job once, and end the reservation with
the job.
"""

import argparse
import re
import sys
import time
from dataclasses import replace
from pathlib import Path

from service.base.errors import InvalidRequestError, ServiceError, UnavailableError
from service.base.server_refusals import ServerRefusalError
from service.cli.http import add_server, connect, find_server
from service.cli.lifetimes import LIFE_HELP, parse_lifetime
from service.cli.model_files.json_files import STDIN
from service.cli.submissions import promises
from service.cli.submissions.errors import SchedulerError
from service.cli.submissions.journal import Entry, Journal, find_journal, find_user
from service.cli.submissions.plans import (
    NoPlanError,
    derive_id,
    read_best,
    read_plan,
    read_question,
)
from service.cli.submissions.registry import SCHEDULERS, find_scheduler
from service.cli.submissions.steps import Submitter
from service.terminal.arguments import DOES_NOT_FIT, FITS, format_choices, make_choice_reader

_ID = re.compile(r"[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?")
_LEASE_S = 1800
_LEASES_S = range(60, 43_201)
"""An idempotency key is remembered for a day: no lease may outlive it."""
_EVERY_S = 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the plan, the scheduler and the lease."""
    parser.add_argument(
        "plan",
        nargs="?",
        type=Path,
        default=Path(STDIN),
        metavar="FILE",
        help="what `headroom plan --cluster NAME --json` printed (default stdin)",
    )
    parser.add_argument(
        "--to",
        type=make_choice_reader(tuple(SCHEDULERS)),
        metavar=format_choices(tuple(SCHEDULERS)),
        help="the scheduler, whose own client is called",
    )
    parser.add_argument("--cluster", metavar="NAME", help="the cluster of the plan")
    parser.add_argument("--holder", metavar="WHO", help="who the GPUs are for (default you)")
    parser.add_argument(
        "--submission-id",
        metavar="ID",
        help="name of the submission (default a digest of the plan, the server and you); with the "
        "id of one that was cut off, it goes on, without its plan",
    )
    parser.add_argument(
        "--lease",
        type=parse_lifetime,
        metavar="TIME",
        help=f"how long GPUs stay reserved when nobody sees the job any more: {LIFE_HELP} "
        "(default 30m)",
    )
    parser.add_argument(
        "--follow",
        action="store_true",
        help="stay, extend the reservation, and end it with the job",
    )
    parser.add_argument(
        "--again",
        action="store_true",
        help="submit although the scheduler may have had the job already",
    )
    parser.add_argument(
        "--reconcile",
        action="store_true",
        help="look after all open submissions once, and submit nothing: for cron",
    )
    parser.add_argument(
        "--journal",
        type=Path,
        metavar="FOLDER",
        help="where submissions are written down (default ~/.local/state/headroom/submissions)",
    )
    add_server(parser)


def run(options: argparse.Namespace) -> int:
    """Submit, or look after what was submitted; the scheduler's id of the job is printed."""
    journal = find_journal(options.journal)
    _prune(journal)
    if options.reconcile:
        return _reconcile(options, journal)
    try:
        submission_id, entry = _open(options, journal)
    except NoPlanError as error:
        sys.stderr.write(f"headroom: {error.detail}\n")
        return DOES_NOT_FIT
    _note(
        f"submission {submission_id}; if it is cut off: headroom submit --submission-id "
        f"{submission_id}"
    )
    with journal.lock(submission_id) as is_free:
        if not is_free:
            message = f"another process is at submission {submission_id}"
            raise InvalidRequestError(message)
        # Another process may have brought it further since it was read.
        entry = journal.read(submission_id) or journal.write(entry)
        return _submit(options, journal, entry)


def pause() -> None:
    """Wait until the next look at a job."""
    time.sleep(_EVERY_S)


def _open(options: argparse.Namespace, journal: Journal) -> tuple[str, Entry]:
    if options.submission_id is not None and not _ID.fullmatch(options.submission_id):
        message = (
            f"--submission-id is {options.submission_id!r}; it takes 1 to 20 lower-case letters, "
            "digits and '-', such as run-7"
        )
        raise InvalidRequestError(message)
    if options.submission_id is not None:
        entry = journal.read(options.submission_id)
        if entry is not None:
            return entry.id, entry
    entry = _make_entry(options)
    return entry.id, entry


def _make_entry(options: argparse.Namespace) -> Entry:
    missing = [
        text
        for text, value in (
            (f"--to {format_choices(tuple(SCHEDULERS))}", options.to),
            ("--cluster NAME", options.cluster),
        )
        if value is None
    ]
    if missing:
        message = f"submit also needs {', '.join(missing)}"
        raise InvalidRequestError(message)
    lease_s = _LEASE_S if options.lease is None else options.lease
    if lease_s not in _LEASES_S:
        message = f"--lease is {lease_s} s; it lies between 60s and 12h"
        raise InvalidRequestError(message)
    scheduler = SCHEDULERS[options.to]
    plan = read_plan(options.plan)
    placement, document = read_best(plan, scheduler)
    server, user = find_server(options.server), find_user()
    facts = (options.to, options.cluster, server, user)
    entry = Entry(
        id=options.submission_id or derive_id(plan, *facts),
        scheduler=options.to,
        server=server,
        cluster=options.cluster,
        holder=options.holder or user,
        payload="",
        placement=placement,
        lease_s=lease_s,
        owner=user,
        target=scheduler.locate(),
        question=read_question(plan),
    )
    entry = replace(entry, digest=_name_question(options, entry))
    return replace(entry, payload=scheduler.prepare(document, entry))


def _name_question(options: argparse.Namespace, entry: Entry) -> str:
    """Return the digest of the plan's question, if any.

    It is empty where the server keeps none. It is for measurements, and no reason not to submit.
    """
    if entry.question is None:
        return ""
    with connect(options.server or entry.server) as client:
        try:
            return promises.name_question(client, entry.question)
        except ServiceError as error:
            _note(f"what the job uses will not be joined to its plan: {error.detail}")
            return ""


def _submit(options: argparse.Namespace, journal: Journal, entry: Entry) -> int:
    if entry.is_over and entry.job is not None:
        _note(
            f"it ran as {entry.scheduler} job {entry.job}, which has ended; for another run of "
            "the same plan say another --submission-id"
        )
        return FITS
    with connect(options.server or entry.server) as client:
        submitter = Submitter(
            client=client, journal=journal, scheduler=find_scheduler(entry.scheduler)
        )
        try:
            entry = submitter.submit(entry, again=options.again)
        except ServerRefusalError as error:
            if error.document.get("type") != "gpus-not-free":
                raise
            _note(error.detail)
            return DOES_NOT_FIT
    sys.stdout.write(f"{entry.job}\n")
    _tell(entry)
    if options.follow:
        _follow(options, journal, entry)
    return FITS


def _follow(options: argparse.Namespace, journal: Journal, entry: Entry) -> None:
    """Look at the job until it has ended, whatever is away meanwhile."""
    while not entry.is_over:
        pause()
        try:
            entry = _settle(options, journal, entry)
        except (UnavailableError, SchedulerError, ServerRefusalError) as error:
            _note(f"{error.detail}; looking again")
    _tell(entry)


def _reconcile(options: argparse.Namespace, journal: Journal) -> int:
    ids = journal.list_open()
    if not ids:
        _note("no submission is open")
    num_failed = 0
    for submission_id in ids:
        try:
            _look_after(options, journal, submission_id)
        except ServiceError as error:
            # The others are looked after all the same.
            num_failed += 1
            _note(f"submission {submission_id}: {error.detail}")
    return DOES_NOT_FIT if num_failed else FITS


def _look_after(options: argparse.Namespace, journal: Journal, submission_id: str) -> None:
    with journal.lock(submission_id) as is_free:
        entry = journal.read(submission_id) if is_free else None
        if entry is None:
            return
        if entry.is_over:
            # It is put away among those that have ended.
            journal.write(entry)
            return
        _tell(_settle(options, journal, entry))


def _prune(journal: Journal) -> None:
    try:
        journal.prune()
    except ServiceError as error:
        # It hinders nobody.
        _note(error.detail)


def _settle(options: argparse.Namespace, journal: Journal, entry: Entry) -> Entry:
    with connect(options.server or entry.server) as client:
        submitter = Submitter(
            client=client, journal=journal, scheduler=find_scheduler(entry.scheduler)
        )
        return submitter.settle(entry)


def _tell(entry: Entry) -> None:
    job = f"{entry.scheduler} job {entry.job}" if entry.job else f"no {entry.scheduler} job"
    state = (
        "its GPUs are no longer reserved"
        if entry.is_over
        else f"reservation {entry.reservation} on {entry.cluster}"
    )
    _note(f"submission {entry.id}: {job}, {state}")


def _note(text: str) -> None:
    sys.stderr.write(f"headroom: {text}\n")
