"""Flags for images, videos and audio."""

import pytest

from service.cli.flags import add_question, build_workload
from service.terminal.arguments import Parser, UsageError

TRAIN = ("llama-2-7b", "--task", "train", "--sequence-length", "4096")


def ask(*arguments: str) -> dict[str, object]:
    """Return the workload that a command line says."""
    parser = Parser(prog="question")
    add_question(parser)
    return build_workload(parser.parse_args(arguments))


def test_images_videos_and_audio_are_said_by_their_sizes() -> None:
    """Each may be said several times, with how many there are of it."""
    said = ask(
        *TRAIN,
        *("--image", "1024x768x4", "--image", "64x32", "--video", "8x448x448", "--audio", "30sx2"),
        *("--inputs-processor", '{"max_pixels": 50176}'),
    )

    assert said["workload"] == {
        "task": "train",
        "sequence_length": 4096,
        "inputs": {
            "images": [{"width": 1024, "height": 768, "count": 4}, {"width": 64, "height": 32}],
            "videos": [{"frames": 8, "width": 448, "height": 448}],
            "audio": [{"seconds": 30.0, "count": 2}],
            "processor": {"max_pixels": 50176},
        },
    }


@pytest.mark.parametrize(
    ("flag", "text", "words"),
    [
        ("--image", "1024", "'1024' is no size; say 1024x768, or 1024x768x4 for four"),
        ("--video", "64x448", "64x448x448 for 64 frames of 448 by 448 pixels"),
        ("--audio", "long", "say 30s, or 30sx2 for two"),
        ("--inputs-processor", "nowhere.json", "cannot be read"),
        ("--inputs-processor", "{", "no JSON"),
    ],
)
def test_a_size_that_is_none_is_refused_with_one(
    flag: str, text: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message has an example of what would be right."""
    with pytest.raises(UsageError):
        ask(*TRAIN, flag, text)

    assert words in capsys.readouterr().err
