"""The table of formats: each by its word, and what it cannot carry is refused in words."""

from dataclasses import replace
from typing import Any

import pytest
import yaml

from service.estimator.values.layout import Layout
from service.estimator.values.workload import Engine, ServeWorkload
from service.formats.manifests.format import Document, Format
from service.formats.manifests.registry import FORMATS, render_format
from service.formats.manifests.yaml_text import as_text
from service.formats.renderings.job import Job, Launch, UnrenderableError
from tests.unit.formats.renderings.builders import a_job

CHAT = ServeWorkload(num_sequences=8, prompt_tokens=512, engine=Engine.VLLM)
REPLICA = a_job(CHAT, Layout(tensor_parallel=2))
SCRIPT = replace(REPLICA, workload=replace(CHAT, engine=Engine.TRANSFORMERS))


def _render(_job: Job, _launch: Launch) -> Document:
    return {"kind": "Job"}


NARROW = Format(
    word="narrow",
    title="Narrow",
    render=_render,
    serves=False,
    spans_nodes=False,
    takes_slices=False,
    vendors=frozenset({"nvidia"}),
)


@pytest.mark.parametrize("word", FORMATS)
def test_every_format_is_found_by_its_own_word(word: str) -> None:
    """The word, and a title that names the scheduler."""
    row = FORMATS[word]

    assert (row.word, ":" in row.title) == (word, True)


@pytest.mark.parametrize("word", FORMATS)
def test_text_reads_back_as_the_document(word: str) -> None:
    """A script is its own text; the YAML of an object is that object, of a List its items."""
    rendering = render_format(word, a_job(layout=Layout(data_parallel=2)))
    document: Any = rendering.document

    if document is None:
        assert rendering.reason
    elif isinstance(document, str):
        assert as_text(document) == document
    else:
        items = document["items"] if document.get("kind") == "List" else [document]
        assert list(yaml.safe_load_all(as_text(document))) == items


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        (REPLICA, "narrow runs jobs that end, and this is a server"),
        (a_job(), "narrow is on one node, and a replica of this spans 2"),
        (a_job(SCRIPT.workload, Layout(), mig_profile="3g.40gb"), "no word for the MIG slice"),
        (a_job(layout=Layout(), gpu="MI300X-192GB"), "words for GPUs of nvidia; this one is of"),
        (a_job(layout=Layout()), None),
    ],
)
def test_a_format_says_what_it_cannot_carry(job: Job, reason: str | None) -> None:
    """A server, several nodes, a slice and another vendor's GPU; an ordinary job it carries."""
    obstacle = NARROW.find_obstacle(job)

    assert reason in obstacle if reason is not None and obstacle else obstacle is reason


def test_a_refusal_of_the_function_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """What only the function sees is refused in its words, not raised."""

    def refuse(_job: Job, _launch: Launch) -> Document:
        message = "no image is known"
        raise UnrenderableError(message)

    table = {"narrow": replace(NARROW, render=refuse)}
    monkeypatch.setattr("service.formats.manifests.registry.FORMATS", table)

    rendering = render_format("narrow", a_job(layout=Layout()))

    assert (rendering.document, rendering.reason) == (None, "no image is known")


def test_scripts_inside_objects_are_blocks_of_lines() -> None:
    """A command of several lines stays readable, and equal objects are written twice."""
    shared = {"a": 1}

    text = as_text({"run": "one\ntwo\n", "first": shared, "second": shared})

    assert text == "---\nrun: |\n  one\n  two\nfirst:\n  a: 1\nsecond:\n  a: 1\n"
