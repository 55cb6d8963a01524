"""Sequences that are one image or a stretch of audio."""

import pytest

from service.catalog.models import list_recorded_models, load_architecture
from service.estimator.memory.image_inputs import resolve_length
from service.estimator.model.architecture import Architecture
from service.estimator.model.recorded.inputs import InputKind, RecordedInput
from service.estimator.model.recorded.items import list_item_notes
from service.estimator.rules.transformers import check_in_transformers
from service.estimator.values.batches import Inputs, Picture, Sound
from service.estimator.values.errors import EstimatorError
from service.estimator.values.layout import Layout
from service.estimator.values.workload import ServeWorkload, TrainWorkload

PICTURE, SOUND = Picture(width=1024, height=768), Sound(seconds=10)
WAVE = RecordedInput(
    name="input_values",
    kind=InputKind.AUDIO,
    shape=(0,),
    step=320,
    offset=320,
    per_second=16_000,
)


def load(model_type: str) -> Architecture:
    """Return the shipped recording of a type, that of its defaults where it has several."""
    entries = [e for e in list_recorded_models() if e.model_type == model_type]
    return load_architecture(min(entries, key=lambda entry: len(entry.required)))


@pytest.mark.parametrize(("seconds", "steps"), [(10, 499), (0.025, 1), (10.001, 500), (0.04, 1)])
def test_audio_is_counted_in_begun_steps(seconds: float, steps: int) -> None:
    """Positions of wav2vec 2.0 are a step of its strides apart, after the first one."""
    assert WAVE.count_steps(seconds) == steps


def test_a_step_has_so_many_samples() -> None:
    """A tensor of audio has the samples of its steps, and those before the first."""
    assert WAVE.get_shape(499) == (160_000,)


def test_an_image_is_a_sequence_of_length_one() -> None:
    """What a request says of tokens has no effect on a model of images."""
    model, workload = load("dinov2"), TrainWorkload(sequence_length=4096)

    resolved = resolve_length(model, workload)

    assert resolved.sequence_length == 1
    assert "224 x 224 pixels" in list_item_notes(model, resolved.sequence_length)[0]


@pytest.mark.parametrize(
    ("model_type", "workload", "words"),
    [
        (
            "dinov2",
            TrainWorkload(sequence_length=1, inputs=Inputs(audio=(SOUND,), alone=True)),
            "reads one image",
        ),
        (
            "dinov2",
            TrainWorkload(sequence_length=1, inputs=Inputs(images=(PICTURE, PICTURE))),
            "reads one image",
        ),
        (
            "siglip_vision_model",
            TrainWorkload(sequence_length=1, inputs=Inputs(images=(PICTURE,))),
            "computes no loss",
        ),
        (
            "helium",
            TrainWorkload(sequence_length=1, inputs=Inputs(images=(PICTURE,), alone=True)),
            "reads text",
        ),
        (
            "helium",
            ServeWorkload(
                num_sequences=1, prompt_tokens=1, inputs=Inputs(images=(PICTURE,), alone=True)
            ),
            "reads text",
        ),
    ],
)
def test_what_is_no_item_of_a_model_is_refused(
    model_type: str, workload: TrainWorkload | ServeWorkload, words: str
) -> None:
    """The refusal says what the model reads."""
    with pytest.raises(EstimatorError, match=words):
        check_in_transformers(load(model_type), workload, Layout())


@pytest.mark.parametrize("model_type", ["dinov2", "siglip_vision_model"])
def test_a_model_of_images_is_served(model_type: str) -> None:
    """One image of any size needs no tokens of a prompt."""
    inputs = Inputs(images=(PICTURE,), alone=True)
    workload = ServeWorkload(num_sequences=8, prompt_tokens=1, inputs=inputs)

    check_in_transformers(load(model_type), workload, Layout())
