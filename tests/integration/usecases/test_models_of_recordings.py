"""Stored models whose passes were recorded."""

from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker

from service.contract.to_answer.models import build_stored_model
from service.db.pages import PageRequest
from service.db.records.models import StoredModel
from service.db.session import transaction
from service.usecases.recordings.documents import load_recording
from service.usecases.stored_specs import models
from service.usecases.stored_specs.model_sources import load_stored_architecture, make_content
from service.usecases.stored_specs.spec_cache import load_stored_model
from tests.recordings import HELIUM, make_document


def create(sessions: sessionmaker[Session], name: str) -> StoredModel:
    """Store the recording under a name."""
    content = make_content({"recording": make_document()})
    return models.create(sessions, name=name, content=content, in_catalogue=lambda _name: False)


def test_a_recording_is_stored_once(sessions: sessionmaker[Session]) -> None:
    """Two models of one recording share its document, and both have its architecture."""
    first, second = create(sessions, "one"), create(sessions, "two")

    assert first.content == second.content
    assert first.content.source == {"hf_config": HELIUM}
    assert load_stored_architecture(first.content).fingerprint() == first.content.fingerprint
    with transaction(sessions) as session:
        assert session.scalar(text("SELECT count(*) FROM recordings")) == 1


def test_a_stored_recording_is_shown_and_decoded_once(sessions: sessionmaker[Session]) -> None:
    """The answer says which releases it was recorded with, and layers by kind."""
    stored = create(sessions, "one")

    answer = build_stored_model(stored)

    shown = answer.architecture["recording"]
    assert shown["model_class"] == "HeliumForCausalLM"
    assert shown["transformers"] == "5.23.0"
    assert [layer["count"] for layer in shown["layers"]] == [9]
    assert answer.parameters is not None
    assert answer.parameters.total == stored.content.num_parameters == 516_288
    named = load_stored_model(sessions, "one")
    recording = stored.content.recording
    assert named is not None
    assert recording is not None
    assert named.architecture is load_recording(recording.digest, recording.packed)


def test_a_list_leaves_recordings_where_they_are(sessions: sessionmaker[Session]) -> None:
    """A page of models reads no document."""
    create(sessions, "one")

    page = models.list_page(sessions, PageRequest(limit=5), catalogue=())

    (item,) = page.items
    assert isinstance(item, StoredModel)
    assert item.content.recording is None
