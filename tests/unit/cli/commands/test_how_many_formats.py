"""``headroom how-many --format``: the fewest GPUs, as a scheduler's client reads them."""

import json

import pytest
import yaml

from service.__main__ import main

FULL = ("--task", "train", "--sequence-length", "512", "--offline")
QUESTION = ("how-many", "gpt2", "--gpu", "L4", *FULL)


def test_stdout_is_what_kubectl_reads(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing but the objects, with the image and the options that were said."""
    code = main(
        [
            *(*QUESTION, "--format", "kueue", "--format-option", "queue=team-a"),
            *("--container-image", "registry.example/mine:7"),
        ]
    )
    (job,) = yaml.safe_load_all(capsys.readouterr().out)

    assert (code, job["kind"]) == (0, "Job")
    assert job["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "team-a"}
    assert job["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example/mine:7"


def test_the_job_has_as_many_gpus_as_the_count(capsys: pytest.CaptureFixture[str]) -> None:
    """What is started is what was counted."""
    search = ("how-many", "llama-2-7b", "--gpu", "A100-SXM4-80GB", *FULL)
    main([*search, "--count"])
    count = int(capsys.readouterr().out)
    main([*search, "--format", "slurm", "--json"])
    (candidate, *_) = json.loads(capsys.readouterr().out)["candidates"]
    code = main([*search, "--format", "slurm"])
    script = capsys.readouterr().out

    assert (code, script) == (0, candidate["requests"]["slurm"])
    assert count > 1
    assert f"#SBATCH --gres=gpu:nvidia_a100-sxm4-80gb:{count}\n" in script


def test_where_no_number_is_enough_nothing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """As for a count: the reason is on stderr, and the code is 1."""
    search = ("how-many", "llama-3.1-8b", "--gpu", "L4", *FULL)
    code = main([*search, "--max-gpus", "1", "--format", "slurm"])
    printed = capsys.readouterr()

    assert (code, printed.out) == (1, "")
    assert "headroom: L4: 1 GPU is not enough" in printed.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--format", "podgroup"), "headroom: podgroup: podgroup is a gang of pods"),
        (("--format", "slurm", "--count"), "--count prints the number alone"),
        (("--container-image", "mine"), "--container-image is of a rendered job: say --format"),
        (("--format-option", "queue=a"), "--format-option is of a rendered job: say --format"),
    ],
)
def test_what_cannot_be_rendered_is_refused(
    words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In words that say what would be right."""
    code = main([*QUESTION, *words])
    printed = capsys.readouterr()

    assert (code, printed.out) == (2, "")
    assert message in printed.err


def test_a_job_is_for_one_kind_of_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    """A family means several, which have other names: they are told, and none is chosen."""
    code = main(["how-many", "gpt2", "--gpu", "H100", *FULL, "--format", "slurm"])
    printed = capsys.readouterr()

    assert (code, printed.out) == (2, "")
    assert "rendered for one kind of GPU; name one of " in printed.err
    assert "H100-SXM5-80GB" in printed.err
