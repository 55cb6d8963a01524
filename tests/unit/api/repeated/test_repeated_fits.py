"""POST /v1/fit asked again: from kept answers, with their tags, for as long as they hold."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from litestar.testing import TestClient

from service.access.keys import Principal, Scope
from service.api.http.auth import Access, Guard
from service.api.http.dependencies import Dependencies
from service.calibration.apply import get_point
from service.calibration.derive import calibrate
from service.calibration.document import to_document
from service.calibration.environment import Environment
from service.calibration.evidence import Evidence, Quantity
from service.calibration.key import build_calibration_key, get_run_kind
from service.db.records.stored import StoredCalibration
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.layout import Layout
from service.estimator.values.workload import TrainWorkload
from service.usecases.learning.corrections import CorrectionCache
from service.usecases.operations.metrics_snapshot import NO_READING
from service.usecases.questions.answer_cache import AnswerCache
from service.usecases.stored_specs.spec_cache import NamedModel, SpecCache
from tests.unit.api.builders import changed, parts, served
from tests.unit.usecases.builders import TINY_LLAMA

QUESTION: dict[str, Any] = {
    "model": "gpt2",
    "workload": {"task": "train", "sequence_length": 64},
    "gpu": "H200",
}


class FakeModels:
    """A database of one model."""

    def __init__(self) -> None:
        """Store its first revision."""
        self.depth = 2

    def read(self, name: str) -> NamedModel | None:
        """Return the newest revision."""
        if name != "mine" or not self.depth:
            return None
        config = {**TINY_LLAMA, "num_hidden_layers": self.depth}
        return NamedModel(
            name=name,
            revision=self.depth,
            version=str(self.depth),
            architecture=architecture_from_config(config),
        )

    def read_versions(self, names: object) -> dict[str, str]:
        """Return the newest version of the model, if it is asked for."""
        return {"mine": str(self.depth)} if self.depth and names else {}


def with_models(models: FakeModels) -> Dependencies:
    """Return parts that know a database of models."""
    specs = SpecCache(
        read_catalogue=lambda _name: None,
        read_stored=models.read,
        read_versions=models.read_versions,
        known_names=tuple,
    )
    return replace(parts(), specs=specs)


def ask(client: TestClient[Any], body: object = None, **headers: str) -> httpx.Response:
    """Ask a question."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return client.post("/v1/fit", json=QUESTION if body is None else body, headers=named)


def ask_often(client: TestClient[Any], body: object = None) -> httpx.Response:
    """Ask a question until its answer is kept, and once more."""
    return [ask(client, body) for _ in range(4)][-1]


def count(deps: Dependencies, name: str) -> float:
    """Return the value of a metric without labels."""
    lines = deps.metrics.render(NO_READING).decode().splitlines()
    return float(next(line for line in lines if line.startswith(f"{name} ")).split()[1])


@pytest.fixture(scope="module", name="client")
def start() -> Iterator[TestClient[Any]]:
    """Serve the API over fakes for the tests of this file that change nothing."""
    with served() as client:
        yield client


def test_a_repeated_question_has_the_same_answer() -> None:
    """The same bytes, and they are counted: fits, those among them that were kept, and their
    bytes.
    """
    deps = parts()
    with served(deps) as client:
        answers = [ask(client) for _ in range(5)]

    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    assert len({answer.headers["etag"] for answer in answers}) == 1
    assert count(deps, 'headroom_fits_total{verdict="fits"}') == 5
    assert count(deps, "headroom_cached_fits_total") == 3
    assert count(deps, "headroom_answer_cache_bytes") > len(answers[0].content)


def test_the_tag_is_of_the_bytes(client: TestClient[Any]) -> None:
    """Another server gives the same, another answer another one; white space changes neither."""
    with served() as other:
        elsewhere = ask(other)
    spaced = client.post(
        "/v1/fit",
        content=json.dumps(QUESTION, indent=1),
        headers={"content-type": "application/json"},
    )

    assert elsewhere.headers["etag"] == ask(client).headers["etag"] == spaced.headers["etag"]
    assert (
        ask(client, changed("gpu", "H100-SXM", QUESTION)).headers["etag"]
        != elsewhere.headers["etag"]
    )


@pytest.mark.parametrize("spelled", ["{etag}", "W/{etag}", '"other", {etag}', "*"])
def test_who_has_an_answer_is_not_sent_it_again(client: TestClient[Any], spelled: str) -> None:
    """Neither the first time nor from the kept ones; the tag comes along."""
    etag = ask(client).headers["etag"]
    for _ in range(3):
        found = ask(client, if_none_match=spelled.format(etag=etag))

        assert (found.status_code, found.content) == (304, b"")
        assert found.headers["etag"] == etag
        assert "content-type" not in found.headers


def test_who_has_another_answer_is_sent_this_one(client: TestClient[Any]) -> None:
    """A tag of another version matches nothing."""
    found = ask(client, if_none_match='"3684db1ae85a4e28b97928998f3a3712"')

    assert found.status_code == 200
    assert found.json()["verdict"] == "fits"


def test_a_broken_tag_is_refused(client: TestClient[Any]) -> None:
    """With what it should be."""
    found = ask(client, if_none_match="no tag")

    assert found.status_code == 422
    assert found.json()["errors"][0]["field"] == "If-None-Match"


def test_a_refusal_is_not_kept(client: TestClient[Any]) -> None:
    """It names the request, and has no tag."""
    found = ask_often(client, changed("workload.optimizer", "adam_w", QUESTION))

    assert found.status_code == 422
    assert "etag" not in found.headers


def test_a_new_revision_is_answered_at_once_where_it_was_stored() -> None:
    """A handler that changes a model tells the process's cache of models."""
    models = FakeModels()
    deps = with_models(models)
    question = changed("model", "mine", QUESTION)
    with served(deps) as client:
        before = ask_often(client, question)
        models.depth = 8
        deps.specs.forget("mine")
        after = ask_often(client, question)

    assert before.headers["etag"] != after.headers["etag"]
    assert before.json()["per_gpu"]["device_bytes"] < after.json()["per_gpu"]["device_bytes"]


def test_a_new_revision_is_answered_elsewhere_when_models_are_read_again() -> None:
    """Neither earlier nor later than a question that was never asked before."""
    models = FakeModels()
    deps = with_models(models)
    question = changed("model", "mine", QUESTION)
    with served(deps) as client:
        before = ask_often(client, question)
        models.depth = 8
        kept, asked_first = ask(client, question), ask(client, question | {"confidence": 0.9})
        deps.specs.refresh()
        after = ask(client, question)

    bytes_ = [one.json()["per_gpu"]["device_bytes"] for one in (before, kept, asked_first, after)]
    assert bytes_[0] == bytes_[1] == bytes_[2] < bytes_[3]


def test_a_model_that_was_deleted_has_no_answer() -> None:
    """Once the process knows, however often it was asked before."""
    models = FakeModels()
    deps = with_models(models)
    question = changed("model", "mine", QUESTION)
    with served(deps) as client:
        before = ask_often(client, question)
        models.depth = 0
        deps.specs.refresh()
        after = ask(client, question)

    assert (before.status_code, after.status_code) == (200, 422)
    assert after.json()["type"] == "unknown-model"


def test_what_is_learnt_and_withdrawn_changes_the_answer() -> None:
    """As soon as the process has read it: by a measurement, an import, a withdrawal."""
    stored: list[StoredCalibration] = []
    corrections = CorrectionCache(read_changed=lambda _since: tuple(stored))
    question = changed("model", "mine", QUESTION)
    answers, bases = [], []
    with served(replace(with_models(FakeModels()), corrections=corrections)) as client:
        for is_withdrawn in (None, False, True):
            if is_withdrawn is not None:
                stored.append(learn(is_withdrawn=is_withdrawn, minute=len(stored)))
            unread = ask_often(client, question)
            corrections.refresh()
            answers.append((unread.json(), ask_often(client, question).json()))
            bases += [
                ask(client, question | {"confidence": level}).json()["basis"]
                for level in (0.9, 0.8, 0.7)
            ]

    assert bases == ["analytic"] * 3 + ["measured"] * 3 + ["analytic"] * 3
    assert [after["basis"] for _, after in answers] == ["analytic", "measured", "analytic"]
    assert answers[1][0] == answers[0][1]
    assert answers[2] == (answers[1][1], answers[0][1])


def learn(*, is_withdrawn: bool, minute: int) -> StoredCalibration:
    """Return what a measurement of the tiny model taught, or that it teaches nothing any more."""
    model, layout = architecture_from_config(TINY_LLAMA), Layout()
    workload = TrainWorkload(sequence_length=64)
    evidence = Evidence(
        measurement=str(uuid4()),
        point=get_point(model, workload, layout),
        quantity=Quantity.ALLOCATED,
        measured=dict.fromkeys(("forward", "backward"), 2_200_000),
        predicted=dict.fromkeys(("forward", "backward"), 2_000_000),
    )
    calibration = calibrate([evidence])
    assert calibration is not None
    environment = Environment()
    return StoredCalibration(
        id=uuid4(),
        key=environment.key.build_curve_key(build_calibration_key(model, workload, layout)),
        kind=get_run_kind(workload, layout, Quantity.ALLOCATED),
        family=model.family,
        environment=environment.name,
        quantity="allocated",
        scope={"gpu": environment.gpu},
        correction={} if is_withdrawn else to_document(calibration),
        evidence=() if is_withdrawn else (UUID(evidence.measurement),),
        created_at=datetime(2026, 1, 1, 0, minute, tzinfo=UTC),
    )


def test_a_kept_answer_is_for_whoever_may_ask() -> None:
    """A key is looked at each time, before anything that is kept."""
    keys = {
        "reader": Principal(name="reader", scopes=frozenset({Scope.READ})),
        "nobody": Principal(name="nobody", scopes=frozenset()),
    }
    guard = Guard(Access.KEYS, find=lambda text: keys[text])
    with served(replace(parts(), guard=guard)) as client:
        allowed = [ask(client, authorization="Bearer reader") for _ in range(4)]
        refused = ask(client, authorization="Bearer nobody", if_none_match="*")
        missing = ask(client, if_none_match="*")

    assert {one.status_code for one in allowed} == {200}
    assert (refused.status_code, missing.status_code) == (403, 401)


def test_what_is_kept_is_bounded() -> None:
    """However much is asked again."""
    deps = replace(parts(), answers=AnswerCache(max_bytes=100_000))
    with served(deps) as client:
        for confidence in range(60, 95):
            ask_often(client, QUESTION | {"confidence": confidence / 100})

    assert 50_000 < count(deps, "headroom_answer_cache_bytes") <= 100_000
