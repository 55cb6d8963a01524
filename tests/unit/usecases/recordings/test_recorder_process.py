"""Configs that are recorded, documents of recordings, and the recorder's process."""

import json
import sys
from typing import Any

import pytest

from service.estimator.values.errors import InvalidConfigError, InvalidInputError
from service.runtime.deadline import DeadlineExceeded
from service.runtime.line_process import Stopped
from service.usecases.recordings.configs import (
    MAX_NESTING,
    MAX_NUMBER,
    check_recordable,
    compute_config_digest,
)
from service.usecases.recordings.documents import (
    load_recording,
    pack_document,
    read_document,
    unpack_document,
)
from service.usecases.recordings.recorder import (
    Died,
    Progress,
    Recorded,
    Refused,
    StaticPart,
    Update,
    count_weights,
    record_config,
)
from tests.recordings import HELIUM, make_document


def nest(depth: int) -> dict[str, object]:
    """Return a config in a config in a config."""
    return {"text_config": nest(depth - 1)} if depth else {}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"num_hidden_layers": 10**9}, "num_hidden_layers"),
        ({"text_config": {"num_hidden_layers": 10**9}}, "num_hidden_layers"),
        ({"num_hidden_layers": -5}, "num_hidden_layers"),
        ({"hidden_size": 2**60}, "hidden_size"),
        ({"text_config": {"hidden_size": -(2**60)}}, "text_config.hidden_size"),
        ({"layer_types": ["full"] * 20_000}, "layer_types"),
        (nest(MAX_NESTING + 1), ".".join(["text_config"] * (MAX_NESTING + 1))),
        ({"quantization_config": {"quant_method": "fp8"}}, "quantization_config"),
        ({"model_type": None}, "model_type"),
    ],
)
def test_no_recorder_is_started_for_a_hostile_config(change: dict[str, object], field: str) -> None:
    """Layers without number, widths without end and configs in configs are refused before."""
    with pytest.raises(InvalidConfigError) as refusal:
        record_config(HELIUM | change, on_update=print, command=("no such program",))

    assert refusal.value.field == field


def test_largest_numbers_are_recorded() -> None:
    """The bounds themselves are within."""
    check_recordable(HELIUM | {"vocab_size": MAX_NUMBER, "num_hidden_layers": 512})


def test_configs_of_one_model_have_one_digest() -> None:
    """What has no effect on the model has none on its address; what has, has."""
    digest = compute_config_digest(HELIUM)

    assert digest == compute_config_digest({"transformers_version": "5"} | HELIUM)
    assert digest != compute_config_digest(HELIUM | {"vocab_size": 1001})


def test_a_document_is_packed_without_loss() -> None:
    """The same content has the same bytes."""
    document = make_document()

    packed = pack_document(document)

    assert unpack_document(packed) == unpack_document(json.dumps(document).encode()) == document
    assert packed == pack_document(dict(reversed(document.items())))


@pytest.mark.parametrize("packed", [b"\x1f\x8b broken", b"{", b"[]", b"\xff"])
def test_what_is_no_recording_is_refused(packed: bytes) -> None:
    """Neither broken compression nor other JSON is one."""
    with pytest.raises(InvalidConfigError):
        unpack_document(packed)


def test_a_recording_that_does_not_run_is_refused() -> None:
    """A layer that its weights do not have is no question's fault."""
    document = make_document()
    document["layers"][0]["linears"] = []

    with pytest.raises(InvalidInputError, match="does not run") as refused:
        read_document(document)

    assert refused.value.field == f"passes.{next(iter(document['passes']))}"


def test_a_recording_that_is_sent_again_is_not_read_again() -> None:
    """An inline recording is answered like a stored one, from what the process keeps."""
    first, other = make_document(), make_document()
    other["transformers"] = "0"

    model = read_document(first)

    assert read_document(make_document()) is model
    assert load_recording(model.recorded.digest, b"") is model
    assert read_document(other) is not model


def test_a_head_that_is_no_table_is_refused() -> None:
    """It has a row for each token."""
    document = make_document()
    name = f"{document['head']}.weight"
    table = next(part for part in document["outer_weights"] if part[0] == name)
    table[2] = [64_000]

    with pytest.raises(InvalidInputError, match="does not fit together"):
        read_document(document)


def test_a_recording_with_an_unknown_pass_is_refused() -> None:
    """Passes have names that a question asks for."""
    document = make_document()
    document["passes"]["quarter"] = document["passes"].pop("half")

    with pytest.raises(InvalidInputError, match="'quarter'"):
        read_document(document)


def test_a_recording_takes_no_memory_by_a_number_alone() -> None:
    """Places for storages are made by their number, and layers run one after another."""
    document = make_document()
    document["passes"]["half"]["num_storages"] = 2**40
    deep = make_document()
    deep["order"] = [0] * 10_000

    with pytest.raises(InvalidInputError, match="num_storages"):
        read_document(document)
    with pytest.raises(InvalidInputError, match="10,000 layers"):
        read_document(deep)


def test_a_short_recording_that_runs_long_is_refused() -> None:
    """Layers of two kinds in turn are run one by one, and each has places of its own."""
    document = make_document()
    document["layers"] *= 2
    document["order"] = [0, 1, 0, 1]
    half = document["passes"]["half"]
    half["blocks"] = [{**half["blocks"][0], "num_storages": 2**20 - 1}] * 2
    half["block_inputs"] *= 2
    document["passes"] = {"half": half}

    with pytest.raises(InvalidInputError, match="run through") as refused:
        read_document(document)

    assert refused.value.field == "passes.half"


def run_script(script: str, *, stop: bool = False, deadline_s: float = 60.0) -> tuple[object, ...]:
    """Return what a recorder of this script ends in, after its updates."""
    updates: list[Update] = []
    outcome = record_config(
        HELIUM,
        on_update=updates.append,
        should_stop=lambda: stop,
        command=(sys.executable, "-S", "-c", f"import json, sys\n{script}"),
        deadline_s=deadline_s,
    )
    return (*updates, outcome)


def test_lines_of_a_recorder_are_read() -> None:
    """It says what it counted and how far it is, and gets the config that it is to record."""
    static: dict[str, Any] = {
        "total": 3,
        "by_kind": {"mlp": 3},
        "transformers": "5.23.0",
        "torch": "2.13.0",
        "document": {"format": 2},
    }
    script = (
        f"print(json.dumps({{'kind': 'static', **{static}}}))\n"
        "print(json.dumps({'kind': 'progress', 'fraction': 0.5, 'phase': 'recording half'}))\n"
        "config = json.load(sys.stdin)['config']\n"
        "print(json.dumps({'kind': 'recorded', 'document': {'config': config}}))\n"
    )

    assert run_script(script) == (
        StaticPart(**static),
        Progress(fraction=0.5, phase="recording half"),
        Recorded(document={"config": HELIUM}),
    )


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        ("print(json.dumps({'kind': 'refused', 'message': 'no'}))", Refused(message="no")),
        ("print('{}')", Died(reason="the recorder wrote b'{}'")),
        (
            "sys.exit('lost')",
            Died(reason="the recorder ended with status 1 without an answer; its last words: lost"),
        ),
        (
            "import os; os.kill(os.getpid(), 9)",
            Died(reason="the recorder was killed by SIGKILL without an answer"),
        ),
        (
            "import os; os.kill(os.getpid(), 24)",
            Refused(message="it takes more time of a processor to record than is allowed"),
        ),
    ],
)
def test_ends_of_a_recorder_are_told_apart(script: str, outcome: object) -> None:
    """A refusal is final, as is a bound of time; a death is not."""
    assert run_script(script) == (outcome,)


def test_a_recorder_that_nobody_wants_is_ended() -> None:
    """It would run for ever."""
    assert run_script("while True: pass", stop=True) == (Stopped(),)


def test_a_recorder_has_a_deadline() -> None:
    """It would run for ever."""
    (outcome,) = run_script("while True: pass", deadline_s=0.01)

    assert outcome == DeadlineExceeded(deadline_s=0.01)


def test_weights_are_counted_without_a_recording() -> None:
    """The process is asked for them alone, and is not waited for once it has told them."""
    static: dict[str, Any] = {
        "total": 3,
        "by_kind": {},
        "transformers": "5",
        "torch": "2",
        "document": {},
    }
    script = (
        "import json, sys\n"
        "assert json.load(sys.stdin)['weights_only']\n"
        f"print(json.dumps({{'kind': 'static', **{static}}}))\n"
        "sys.stdout.flush()\nwhile True: pass\n"
    )

    counted = count_weights(HELIUM, deadline_s=60.0, command=(sys.executable, "-S", "-c", script))

    assert counted == StaticPart(**static)
