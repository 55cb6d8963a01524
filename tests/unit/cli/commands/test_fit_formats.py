"""``headroom fit --format``: a job of a scheduler in place of the answer; and the list of them."""

import json

import pytest
import yaml

from service.__main__ import main
from service.formats.manifests.registry import FORMATS

QUESTION = ("--task", "train", "--method", "lora", "--sequence-length", "512", "--offline")


def test_stdout_is_the_job_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """As kubectl reads it, on the GPU and with the image that were said."""
    code = main(
        [
            *("fit", "gpt2", "--gpu", "L4", *QUESTION, "--format", "kubernetes"),
            *("--container-image", "registry.example/mine:7"),
        ]
    )
    (job,) = yaml.safe_load_all(capsys.readouterr().out)

    pod = job["spec"]["template"]["spec"]
    assert (code, job["kind"]) == (0, "Job")
    assert pod["containers"][0]["image"] == "registry.example/mine:7"
    assert pod["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-L4"}


def test_what_does_not_fit_is_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """The code is that of a fit, the reason is on stderr, and nothing can be piped by mistake."""
    code = main(["fit", "llama-2-70b", "--gpu", "T4", *QUESTION, "--format", "slurm"])
    printed = capsys.readouterr()

    assert (code, printed.out) == (1, "")
    assert "there is no job to print: it does not fit" in printed.err


def test_a_format_that_cannot_carry_it_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """In its own words."""
    code = main(["fit", "gpt2", "--gpu", "L4", *QUESTION, "--format", "podgroup"])
    printed = capsys.readouterr()

    assert (code, printed.out) == (2, "")
    assert printed.err.startswith("headroom: podgroup: podgroup is a gang of pods")


def test_an_image_without_a_format_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """It would have no effect."""
    code = main(["fit", "gpt2", "--gpu", "L4", *QUESTION, "--container-image", "mine"])

    assert code == 2
    assert "say --format as well" in capsys.readouterr().err


def test_json_is_the_answer_of_the_server(capsys: pytest.CaptureFixture[str]) -> None:
    """With the verdict and the reason beside the document."""
    code = main(["fit", "gpt2", "--gpu", "L4", *QUESTION, "--format", "slurm", "--json"])
    answer = json.loads(capsys.readouterr().out)

    assert (code, answer["format"], answer["verdict"]) == (0, "slurm", "fits")
    assert answer["text"] == answer["document"]


def test_formats_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """Each by its word, as ``--format`` takes it."""
    code = main(["formats", "--offline", "--json"])
    items = json.loads(capsys.readouterr().out)
    main(["formats", "--offline"])
    table = capsys.readouterr().out

    assert code == 0
    assert [item["word"] for item in items] == list(FORMATS)
    assert all(word in table for word in FORMATS)


def test_options_are_said_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Each as KEY=VALUE, a switch as true."""
    code = main(
        [
            *("fit", "gpt2", "--gpu", "L4", *QUESTION, "--format", "kueue"),
            *("--format-option", "queue=team-a", "--format-option", "gate=true"),
            *("--format-option", "name=mine"),
        ]
    )
    (job,) = yaml.safe_load_all(capsys.readouterr().out)

    assert (code, job["metadata"]["name"]) == (0, "mine")
    assert job["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "team-a"}
    assert "kueue.x-k8s.io/admission-gated-by" in job["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--format-option", "queue=a"), "--format-option is of a rendered job: say --format"),
        (("--format", "kueue", "--format-option", "partition=a"), "'partition=a' is none"),
        (("--format", "kueue", "--format-option", "gate=yes"), "gate is true or false, not 'yes'"),
        (("--format", "slurm", "--format-option", "queue=a"), "slurm takes no queue"),
    ],
)
def test_an_option_without_effect_is_refused(
    words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In words that say what would be right."""
    code = main(["fit", "gpt2", "--gpu", "L4", *QUESTION, *words])
    printed = capsys.readouterr()

    assert (code, printed.out) == (2, "")
    assert message in printed.err
