"""``--from FILE`` and ``-- COMMAND``: launches in place of flags, without a server."""

import json
from pathlib import Path

import pytest

from service.__main__ import main

GPU = ("--gpu", "H100-SXM5-80GB")
YAML = """\
model_name_or_path: meta-llama/Llama-3.2-1B
max_length: 1024
packing: false
per_device_train_batch_size: 2
learning_rate: 1e-4
frobnicate: 3
"""


@pytest.fixture(name="file")
def write_file(tmp_path: Path) -> str:
    """Write a launch file of TRL's."""
    path = tmp_path / "sft.yaml"
    path.write_text(YAML)
    return str(path)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Return the exit code, stdout and stderr on one line each."""
    code = main(arguments)
    printed = capsys.readouterr()
    return code, " ".join(printed.out.split()), " ".join(printed.err.split())


def test_a_file_is_the_question(capsys: pytest.CaptureFixture[str], file: str) -> None:
    """The answer is that of the same question in flags, and stderr tells what was read."""
    code, out, err = run(capsys, "fit", *GPU, "--from", file, "--json")
    flags = ("--task", "train", "--sequence-length", "1024", "--micro-batch-size", "2")
    trl = ("--loss", "nll", "--precision", "amp_bf16", "--optimizer", "adamw_fused")
    more = ("--activation-checkpointing", "full", "--gradient-clipping")
    _, typed, _ = run(capsys, "fit", "llama-3.2-1b", *GPU, *flags, *trl, *more, "--json")

    assert code == 0
    assert json.loads(out)["per_gpu"] == json.loads(typed)["per_gpu"]
    assert "read as trl_sft (transformers 5.23.0, peft 0.21.0, trl 1.16.0)" in err
    assert "ignored: frobnicate" in err


def test_a_command_is_the_question(capsys: pytest.CaptureFixture[str]) -> None:
    """What stands behind two hyphens is the launch; flags before them say the rest."""
    launch = ("python", "train.py", "--model_name_or_path", "gpt2", "--bf16")
    missing = run(capsys, "fit", *GPU, "--", *launch)
    code, out, _ = run(capsys, "fit", *GPU, "--sequence-length", "512", "--json", "--", *launch)

    assert missing[0] == 2
    assert "does not say --sequence-length" in missing[2]
    assert code == 0
    assert json.loads(out)["verdict"] == "fits"


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("how-many --gpu A100-SXM4-80GB", 0, "at least these GPUs: the launch leaves"),
        ("plan --gpus A100-SXM4-80GB", 0, "at least these GPUs: the launch leaves"),
        ("ceilings --gpu A100-SXM4-80GB --maximize micro_batch_size", 0, "at most this: the lau"),
        ("how-many --gpu A100-SXM4-80GB --count", 2, "does not say --evaluation-kept-batches"),
    ],
)
def test_a_search_with_an_open_field_is_a_bound(
    capsys: pytest.CaptureFixture[str], command: str, code: int, words: str
) -> None:
    """It is answered with the least that the field adds, which is said; a bare number is not."""
    launch = ("python", "train.py", "--model_name_or_path", "gpt2", "--bf16")
    metrics = ("--eval_strategy", "steps", "--metric_for_best_model", "accuracy")

    told = run(capsys, *command.split(), "--sequence-length", "128", "--", *launch, *metrics)

    assert told[0] == code
    assert words in told[2]


@pytest.mark.parametrize(
    ("batch", "code", "words"),
    [
        ("512", 1, "does not fit whatever --evaluation-kept-batches is: what follows is the least"),
        ("1", 2, "does not say --evaluation-kept-batches (it has metrics"),
    ],
)
def test_what_only_adds_memory_need_not_be_said_of_what_does_not_fit(
    capsys: pytest.CaptureFixture[str], batch: str, code: int, words: str
) -> None:
    """Only what fits waits for the answer; what would help without it is no promise."""
    launch = ("python", "train.py", "--model_name_or_path", "gpt2", "--bf16")
    metrics = ("--eval_strategy", "steps", "--metric_for_best_model", "accuracy")
    flags = ("--sequence-length", "512", "--json")
    size = ("--per_device_train_batch_size", batch)
    exit_code, out, err = run(capsys, "fit", *GPU, *flags, "--", *launch, *metrics, *size)

    assert exit_code == code
    assert words in err + out
    assert json.loads(out).get("remedies") in (None, [])


VLLM = ("vllm", "serve", "openai/gpt-oss-20b", "--max-model-len", "32768")
STARTS = "this answers whether the engine starts and has room for one request"


def test_a_server_without_a_load_is_asked_whether_it_starts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As with one request of 512 tokens, which stderr says; with a load nothing is assumed."""
    load = ("--num-sequences", "1", "--prompt-tokens", "512")
    code, out, err = run(capsys, "fit", *GPU, "--json", "--", *VLLM)
    _, typed, silent = run(capsys, "fit", *GPU, *load, "--json", "--", *VLLM)

    assert code == 0
    assert f"{STARTS}; say --num-sequences and --prompt-tokens for yours" in err
    assert json.loads(out)["per_gpu"] == json.loads(typed)["per_gpu"]
    assert STARTS not in silent


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        ("fit --gpu L4-24GB --num-sequences 2", 0, f"{STARTS}; say --prompt-tokens for yours"),
        ("fit --gpu RTX-3060-12GB", 1, STARTS),
        ("how-many --gpu L4-24GB", 0, STARTS),
        ("plan --gpus L4-24GB", 0, STARTS),
        ("how-many --gpu L4-24GB --count", 2, "does not say --num-sequences"),
        ("fit --gpu L4-24GB --format kubernetes", 2, "does not say --num-sequences"),
        ("ceilings --gpu L4-24GB --maximize num_sequences", 2, "does not say --prompt-tokens"),
        ("ceilings --gpu L4-24GB --prompt-tokens 9 --maximize num_sequences", 0, "open"),
    ],
)
def test_whether_it_starts_is_no_answer_to_every_command(
    capsys: pytest.CaptureFixture[str], flags: str, code: int, words: str
) -> None:
    """A bare number, a job and a ceiling wait for the load."""
    answered = run(capsys, *flags.split(), "--", *VLLM)

    assert (answered[0], words in answered[2]) == (code, True), answered


def test_a_flag_does_not_contradict_the_launch(
    capsys: pytest.CaptureFixture[str], file: str
) -> None:
    """Both values are named."""
    code, _, err = run(capsys, "fit", *GPU, "--from", file, "--micro-batch-size", "4")

    assert code == 2
    assert "--micro-batch-size is 2 by per_device_train_batch_size" in err
    assert "in the launch and 4 in the request" in err


def test_how_many_searches_the_layout_of_a_launch(
    capsys: pytest.CaptureFixture[str], file: str
) -> None:
    """The number of GPUs is what is asked, so the launch does not fix it."""
    code, out, _ = run(capsys, "how-many", *GPU, "--from", file, "--json")

    assert code == 0
    assert json.loads(out)["num_gpus"] == 1


def test_an_error_of_a_typed_command_names_it(capsys: pytest.CaptureFixture[str]) -> None:
    """No file was handed in."""
    launch = ("python", "train.py", "--model_name_or_path", "gpt2", "--bf16")
    code, _, err = run(capsys, "fit", *GPU, "--", *launch, "--per_device_train_batch_size", "many")

    assert code == 2
    assert "headroom: command: --per_device_train_batch_size is 'many'; expected a whole" in err


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """It is told by its name."""
    code, _, err = run(capsys, "fit", *GPU, "--from", str(tmp_path / "none.yaml"))

    assert code == 2
    assert "none.yaml: No such file" in err


def test_a_file_of_powershell_is_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Its redirection writes UTF-16, and lines end in two characters."""
    path = tmp_path / "sft.yaml"
    path.write_bytes(YAML.replace("\n", "\r\n").encode("utf-16"))

    code, _, err = run(capsys, "fit", *GPU, "--from", str(path))

    assert code == 0
    assert "ignored: frobnicate" in err


def test_a_model_that_a_launch_describes_is_asked_about(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Sizes among the arguments are the model, which has no name."""
    path = tmp_path / "train.sh"
    sizes = "--num-layers 2 --hidden-size 256 --num-attention-heads 4 --vocab-size 1024"
    step = "--seq-length 512 --max-position-embeddings 512 --micro-batch-size 1 --bf16"
    path.write_text(f"ARGS=({sizes} {step})\ntorchrun pretrain_gpt.py ${{ARGS[@]}}\n")

    code, out, err = run(capsys, "fit", *GPU, "--from", str(path))

    assert code == 0
    assert "the launch's model on H100-SXM5-80GB, 1 GPU: fits" in out
    assert "read as megatron" in err


def test_a_measurement_of_a_launch_takes_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    """``measure`` has no ``--gpu-memory`` to read; it asks a server, which is not there."""
    launch = ("python", "train.py", "--model_name_or_path", "gpt2", "--bf16")
    server = ("--server", "http://127.0.0.1:1")

    code, _, err = run(capsys, "measure", *GPU, *server, "--sequence-length", "64", "--", *launch)

    assert code == 2
    assert "nobody expected" not in err
    assert "127.0.0.1:1" in err
