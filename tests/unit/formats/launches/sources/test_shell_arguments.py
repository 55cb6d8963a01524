"""Arguments of shells, functions and scripts: ``$1``, ``"$@"``, ``shift``."""

import pytest

from tests.unit.formats.launches.asking import ask, get_workload

_SERVE = "vllm serve $1 --max-model-len 4096"
_POD = """apiVersion: v1
kind: Pod
spec:
  containers:
  - image: vllm/vllm-openai:v0.20.1
    command: ["sh", "-c", {text}]
    args: {args}
"""
_IMAGE = "vllm/vllm-openai:v0.20.1"


@pytest.mark.parametrize(
    "command",
    [
        f"bash -c '{_SERVE}' _ a/b",
        "bash -c 'vllm serve $0 --max-model-len $1' a/b 4096",
        "bash -c 'vllm serve \"$@\"' _ a/b --max-model-len 4096",
        "bash -c 'shift 2; exec \"$@\"' _ x y vllm serve a/b --max-model-len 4096",
        'run() { local port=$1; shift; vllm serve "$@"; }; run 80 a/b --max-model-len 4096',
        f"docker run --gpus all --entrypoint bash {_IMAGE} -c 'cd /x && {_SERVE}' _ a/b",
        f"docker run --entrypoint=/bin/sh -it --rm {_IMAGE} -ec '{_SERVE}' _ a/b",
    ],
)
def test_arguments_of_a_shell_are_the_texts(command: str) -> None:
    """They were left open, or taken for words of the program."""
    question = ask(command=command)

    assert question.document["model"] == "a/b"
    assert get_workload(question)["max_model_len"] == 4096
    assert question.imported.ignored == ()


@pytest.mark.parametrize(
    ("text", "args"),
    [
        (f'"{_SERVE}"', '["_", "a/b"]'),
        ('"exec \\"$@\\""', '["--", "vllm", "serve", "a/b", "--max-model-len", "4096"]'),
    ],
)
def test_arguments_of_a_pod_are_its_shells(text: str, args: str) -> None:
    """The model was named ``_``."""
    question = ask(files=[{"name": "a.yaml", "content": _POD.format(text=text, args=args)}])

    assert question.document["model"] == "a/b"
    assert get_workload(question)["max_model_len"] == 4096


def test_a_pasted_script_and_a_file_of_its_name() -> None:
    """What was pasted is meant; a script that it does not run is another."""
    file = {"name": "command.sh", "content": "#!/bin/bash\nvllm serve c/d --max-model-len 8192\n"}

    pasted = ask(command="bash -c 'vllm serve a/b'", files=[file])
    run = ask(command="bash -c 'cd x; bash command.sh'", files=[file])

    assert (pasted.document["model"], run.document["model"]) == ("a/b", "c/d")
