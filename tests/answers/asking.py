"""Asks the questions: over HTTP, or as a command; some together, some strictly in order."""

import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from queue import SimpleQueue

import httpx

from tests.answers.normalising import normal, normal_answer, ordered
from tests.answers.questions import RUN, TOGETHER, Json, Question
from tests.answers.running import Tree

_WITHIN_S = 600.0
_PLACE = re.compile(r"<<(\w+)>>")


@dataclass(slots=True)
class Asker:
    """The services that are asked, and what their answers told for later questions.

    The first one keeps what is stored. A service answers with one process, so that the others only
    share the questions that store nothing: each of them is asked one question at a time.
    """

    tree: Tree
    clients: Sequence[httpx.Client]
    captured: dict[str, str] = field(default_factory=dict)
    times: dict[str, float] = field(default_factory=dict)

    def ask(self, question: Question, client: httpx.Client | None = None) -> Json:
        """Return the answer as it is kept."""
        time.sleep(question.pause_s)
        started = time.monotonic()
        if question.method == RUN:
            answer, raw = self._run(question)
        else:
            answer, raw = self._send(question, client or self.clients[0])
        for name, pattern in question.captures.items():
            found = re.search(pattern, raw)
            self.captured[name] = found[1].strip() if found else f"no-{name}"
        took = time.monotonic() - started
        self.times[question.group] = self.times.get(question.group, 0.0) + took
        return answer

    def _send(self, question: Question, client: httpx.Client) -> tuple[Json, str]:
        headers = {"accept-encoding": "identity", **self._filled(question.headers)}
        content = None
        if question.body is not None:
            headers = {"content-type": "application/json", **headers}
            content = self._fill(question.body).encode()
        path = self._fill(question.path)
        answer = client.request(question.method, path, content=content, headers=headers)
        told = "\n".join(f"{name}: {value}" for name, value in answer.headers.items())
        kept = normal_answer(answer.status_code, answer.headers, answer.content, self._names())
        return kept, f"{told}\n\n{answer.text}"

    def _run(self, question: Question) -> tuple[Json, str]:
        # Ids are drawn by chance: a table that has them must not break them into lines.
        wide = {"COLUMNS": "240"} if "--server" in question.argv else {}
        with tempfile.TemporaryDirectory(prefix="hr-") as folder:
            for name, text in question.files.items():
                (Path(folder) / name).write_text(text)
            done = subprocess.run(
                self.tree.argv(*(self._fill(word) for word in question.argv)),
                cwd=folder,
                env={**self.tree.environment(Path(folder)), **wide},
                input=question.stdin,
                capture_output=True,
                text=True,
                timeout=_WITHIN_S,
                check=False,
            )
        out, err = (ordered(normal(text, self._names())) for text in (done.stdout, done.stderr))
        return {"status": done.returncode, "body": out, "stderr": err}, done.stdout

    def _names(self) -> Mapping[str, str]:
        """Return what was captured, longest first, so that no value is cut by a shorter one."""
        return dict(sorted(self.captured.items(), key=lambda one: (-len(one[1]), one[0])))

    def _fill(self, text: str) -> str:
        words = self.captured | {"server": str(self.clients[0].base_url)}
        return _PLACE.sub(lambda found: words.get(found[1], f"no-{found[1]}"), text)

    def _filled(self, words: Mapping[str, str]) -> dict[str, str]:
        return {name: self._fill(value) for name, value in words.items()}


def ask_all(
    asker: Asker, questions: Sequence[Question], say: Callable[[int], None]
) -> Iterator[tuple[Question, Json]]:
    """Yield each question with its answer, in the order of the questions.

    Only questions that write nothing are asked together. Writes and what reads them come one at a
    time, and nothing else is asked meanwhile: lists, the audit, accuracy and calibrated fits would
    show what has been stored so far.
    """
    done = 0
    free: SimpleQueue[httpx.Client] = SimpleQueue()
    for client in asker.clients:
        free.put(client)

    def ask(question: Question) -> Json:
        client = free.get()
        try:
            return asker.ask(question, client)
        finally:
            free.put(client)

    with ThreadPoolExecutor(len(asker.clients)) as pool:
        for when, run in groupby(questions, key=lambda question: question.when):
            asked = list(run)
            together = when == TOGETHER
            answers = pool.map(ask, asked) if together else map(asker.ask, asked)
            for question, answer in zip(asked, answers, strict=True):
                done += 1
                say(done)
                yield question, answer
