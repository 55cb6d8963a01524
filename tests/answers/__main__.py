"""Records what every endpoint and command answers, and tells where another tree answers otherwise.

``python -m tests.answers record FILE [--root DIR]`` asks and writes one JSON line per question;
``python -m tests.answers compare FILE [--root DIR]`` asks what FILE asked and shows differences.
Nothing of the service is imported: a tree is judged by HTTP and by its command line alone.
"""

import argparse
import json
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx

from tests.answers import commands, fits, imports, long_searches, pages, searches, stored
from tests.answers.asking import Asker, ask_all
from tests.answers.comparing import differences
from tests.answers.questions import IN_ORDER, Json, Question, known_of
from tests.answers.running import Tree, running

_CHECKOUT = Path(__file__).resolve().parents[2]
_WITHIN_S = 600.0
_SERVICES = 2
"""One for each core of the machine."""
_FIELDS_SHOWN = 4
_EVERY = 200


def main() -> int:
    """Record or compare, as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.answers", description=__doc__)
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--root", type=Path, default=_CHECKOUT, help="the checkout that is asked")
    parser.add_argument("--only", default="", help="groups that begin so: /v1/fit, headroom")
    parser.add_argument("--module", default="service", help="the package that python -m runs")
    parser.add_argument("--shown", type=int, default=3, help="differing questions shown per group")
    parser.add_argument(
        "--without", action="append", default=[], help="fields that may differ: searched"
    )
    options = parser.parse_args()
    tree = Tree(root=options.root.resolve(), module=options.module)
    tree.check()
    # In the background of a shell SIGINT is ignored; either signal is to end the services as well.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(130))
    started = time.monotonic()
    with _asker(tree) as asker:
        judge = _record if options.what == "record" else _compare
        code = judge(asker, options)
    _say(f"{time.monotonic() - started:.0f} s")
    return code


def _record(asker: Asker, options: argparse.Namespace) -> int:
    """Ask every question and keep what is answered."""
    chosen = _needed(_questions(asker.clients[0]), options.only)
    statuses: dict[str, Counter[str]] = defaultdict(Counter)
    with options.file.open("w") as out:
        for question, answer in ask_all(asker, chosen, _progress):
            out.write(json.dumps({"question": question.as_json(), "answer": answer}) + "\n")
            statuses[question.group][str(answer["status"])] += 1
    for group, counted in statuses.items():
        words = ", ".join(f"{number} x {status}" for status, number in sorted(counted.items()))
        _say(f"{group:26} {counted.total():5} in {asker.times[group]:5.1f} s: {words}")
    _say(f"{sum(counted.total() for counted in statuses.values())} answers in {options.file}")
    return 0


def _compare(asker: Asker, options: argparse.Namespace) -> int:
    """Ask what was asked and show what differs, 1 if anything does."""
    rows = [json.loads(line) for line in options.file.read_text().splitlines()]
    asked = [(Question(**row["question"]), row["answer"]) for row in rows]
    needed = set(map(id, _needed([question for question, _ in asked], options.only)))
    asked = [(question, answer) for question, answer in asked if id(question) in needed]
    equal: Counter[str] = Counter()
    differing: Counter[str] = Counter()
    answers = ask_all(asker, [question for question, _ in asked], _progress)
    for (_, before), (question, after) in zip(asked, answers, strict=True):
        if not question.group.startswith(options.only):
            continue
        found = list(differences(before, after, frozenset(options.without)))
        (differing if found else equal)[question.group] += 1
        if found and differing[question.group] <= options.shown:
            _show(question, found)
    for group in dict.fromkeys((*equal, *differing)):
        total = equal[group] + differing[group]
        _say(f"{group:26} {total:5} asked, {equal[group]:5} equal, {differing[group]:5} differing")
    _say(f"{equal.total()} equal, {differing.total()} differing")
    return 1 if differing else 0


def _questions(client: httpx.Client) -> list[Question]:
    """Return every question, in the order in which they are asked."""
    data = _CHECKOUT / "tests"
    document = client.get("/docs/openapi.json").json()
    known = known_of(document, _items(client, "/v1/models"), _items(client, "/v1/gpus"))
    return [
        *pages.first(),
        *pages.pages(pages.files_of(client)),
        *pages.catalogues(known),
        *fits.fits(known, data),
        *searches.batches(known),
        *searches.how_many(),
        *searches.plans(known),
        *searches.ceilings(),
        *long_searches.long_searches(),
        *commands.offline(),
        *pages.methods(known),
        *stored.stored(),
        *imports.imports(data),
        *commands.online(),
        *pages.last(),
    ]


def _items(client: httpx.Client, path: str) -> list[Json]:
    """Return a whole list, all of whose pages are read."""
    page = client.get(path, params={"limit": 200}).json()
    items = list(page["items"])
    while page["next_cursor"]:
        page = client.get(path, params={"limit": 200, "cursor": page["next_cursor"]}).json()
        items += page["items"]
    return items


def _needed(questions: Sequence[Question], only: str) -> list[Question]:
    """Return the chosen questions and, of those in order, what comes before."""
    chosen = [number for number, one in enumerate(questions) if one.group.startswith(only)]
    last = max((n for n in chosen if questions[n].when == IN_ORDER), default=-1)
    kept = set(chosen) | {n for n in range(last) if questions[n].when == IN_ORDER} | {0}
    return [question for number, question in enumerate(questions) if number in kept]


@contextmanager
def _asker(tree: Tree) -> Iterator[Asker]:
    with ExitStack() as stack:
        servers = [stack.enter_context(running(tree)) for _ in range(_SERVICES)]
        clients = [httpx.Client(base_url=server, timeout=_WITHIN_S) for server in servers]
        yield Asker(tree=tree, clients=[stack.enter_context(client) for client in clients])


def _show(question: Question, found: Sequence[str]) -> None:
    _say(f"\n{question.group}: {question.label}")
    for line in found[:_FIELDS_SHOWN]:
        _say(f"  {line}")
    if len(found) > _FIELDS_SHOWN:
        _say(f"  … and {len(found) - _FIELDS_SHOWN} more")


def _progress(done: int) -> None:
    if done % _EVERY == 0:
        sys.stderr.write(f"{done} answered\n")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
