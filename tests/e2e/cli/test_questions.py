"""Questions in users' words: each is answered, or refused with what would be right."""

import re
import shlex

import pytest

from service.__main__ import main
from tests.e2e.cli.questions import TRAINING, Question
from tests.e2e.cli.questions_asked import ASKED
from tests.e2e.cli.questions_forums import FORUMS
from tests.e2e.cli.questions_forums_served import FORUMS_SERVED
from tests.e2e.cli.questions_found import COMMANDS, GPUS, MODELS
from tests.e2e.cli.questions_named import NAMED_GPUS, NAMED_MODELS, NAMED_SWITCHES
from tests.e2e.cli.questions_odd import ODD
from tests.e2e.cli.questions_served import SERVING
from tests.e2e.cli.questions_today import TODAY
from tests.e2e.cli.questions_words import OTHER_WORDS, STARTS

QUESTIONS = (
    *TRAINING,
    *SERVING,
    *TODAY,
    *GPUS,
    *MODELS,
    *COMMANDS,
    *OTHER_WORDS,
    *STARTS,
    *ODD,
    *NAMED_GPUS,
    *NAMED_SWITCHES,
    *NAMED_MODELS,
    *ASKED,
    *FORUMS,
    *FORUMS_SERVED,
)

NEXT_STEP = re.compile(
    r"did you mean|ask by |nearest names|known: |modelled: |possible: |it has: |expected |"
    r"at least |say |give |try `|would be right|what would help|what would fit|nothing known|"
    r"are not enough|models of its family",
    re.IGNORECASE,
)
"""What to do now, in one of the ways in which it is said."""


@pytest.mark.parametrize("question", QUESTIONS, ids=[question.words for question in QUESTIONS])
def test_a_question_is_answered_or_refused_with_what_would_be_right(
    question: Question, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verdict is right, figures are named, and nobody is left without a next step."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("HEADROOM_URL", raising=False)

    status = _run(question.command)

    output = "\n".join(capsys.readouterr())
    assert status == question.status, output
    assert [part for part in question.says if part not in output] == []
    if status:
        assert NEXT_STEP.search(output), output


def test_there_are_as_many_questions_as_were_asked() -> None:
    """None is dropped, none is asked twice."""
    assert len({question.command for question in QUESTIONS}) == len(QUESTIONS) >= 228


def _run(command: str) -> int:
    try:
        return main(shlex.split(command))
    except SystemExit as error:
        return int(error.code or 0)
