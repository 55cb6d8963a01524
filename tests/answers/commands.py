"""The command line: offline answers, as text and as JSON; help; and as a client of the service."""

import json
import shlex
from collections.abc import Iterator

from tests.answers.questions import IN_ORDER, RUN, TOGETHER, Question, words
from tests.answers.stored import TINY

_COMMANDS = words(
    "up serve worker reconcile migrate prune fit how-many plan ceilings models clusters "
    "reservations keys measure measurements accuracy calibrations version"
)
_TRAIN = "--task train --sequence-length 4096"
_SERVE = "--task serve --num-sequences 16 --prompt-tokens 1024 --output-tokens 256"
_MEGATRON = (
    "--framework megatron --tensor-parallel 8 --pipeline-parallel 4 --zero-stage 1 "
    "--sharding megatron --gradient-accumulation-steps 8"
)
_OFFLINE = (
    f"fit llama-2-7b --gpu A100-SXM4-80GB {_TRAIN}",
    f"fit llama-2-7b --gpu RTX-4090 {_TRAIN} --method lora --lora-rank 16 --precision bf16",
    f"fit llama-2-70b --gpu H100-SXM5-80GB {_TRAIN} {_MEGATRON}",
    f"fit llama-3.1-8b --gpu L40S {_SERVE} --engine vllm --gpu-memory-fraction 0.9",
    f"fit mixtral-8x7b --gpu H200 {_SERVE} --engine sglang --tensor-parallel 2",
    f"fit llama-3.1-8b --gpu-memory 80Gi {_SERVE} --engine llama_cpp --quantization q4_k_m",
    f"how-many llama-2-70b --gpu A100-SXM4-80GB {_TRAIN} --zero-stage 3",
    f"how-many llama-3.1-70b --gpu H100-SXM5-80GB {_SERVE} --engine vllm",
    f"plan llama-3.1-8b --gpus A100-SXM4-80GB,H100-SXM5-80GB {_TRAIN} --method lora",
    f"plan llama-3.1-70b --gpus H200 {_SERVE} --engine vllm",
    f"ceilings llama-3.1-8b --gpu L40S {_TRAIN} --method lora --maximize micro_batch_size",
    f"ceilings llama-3.1-8b --gpu H200 {_SERVE} --engine vllm --maximize num_sequences",
    f"fit --config tiny.json --gpu L4 {_TRAIN}",
)
_REFUSED = (
    "",
    "nothing",
    "fit",
    "fit llama-2-7b",
    f"fit llama-9 --gpu H200 {_TRAIN}",
    f"fit gpt2 --gpu A100 {_TRAIN}",
    f"fit gpt2 --gpu H200 {_TRAIN} --optimizer adamv",
    f"fit gpt2 --gpu H200 {_TRAIN} --num-sequences 4",
    f"fit --config none.json --gpu H200 {_TRAIN}",
    f"plan gpt2 --gpus H200 {_TRAIN} --cluster x",
    f"ceilings gpt2 --gpu H200 {_TRAIN} --maximize depth",
    "models list --server ftp://x",
    "serve --port 1",
    "version",
    "version --json",
)
_ONLINE = (
    "models list",
    "models show gpt2",
    "models show m4 --json",
    "models show none",
    "models add mine --config tiny.json",
    "models show mine",
    "clusters list",
    "clusters show prod-a",
    "clusters show prod-a --json",
    "clusters add edge --file cluster.json",
    "reservations list edge",
    "reservations add edge --holder me --gpus l4/n1=1 --for 8h",
    "reservations list edge --json",
    "clusters delete edge",
    "clusters delete edge --end-reservations",
    "keys list",
    "measurements",
    "measurements --sort=-error",
    "measurements export",
    "measurements show none",
    "accuracy",
    "accuracy --json",
    "calibrations",
    "calibrations --json",
    f"fit llama-3.2-1b --gpu L4 {_TRAIN} --precision bf16",
    f"how-many gpt2 --gpu L4 {_TRAIN}",
    f"plan llama-3.1-8b --cluster prod-a {_TRAIN}",
    f"ceilings gpt2 --gpu L4 {_TRAIN} --maximize micro_batch_size",
    f"measure llama-3.2-1b --device trace {_TRAIN} --dry-run",
    f"measurements import stats.json --model gpt2 --gpu L4 {_TRAIN}",
    "measure --cancel none --task train",
)
_POOL = {"name": "l4", "gpu": "L4", "gpus_per_node": 2, "nodes": [{"name": "n1"}, {"name": "n2"}]}
_FILES = {
    "tiny.json": json.dumps(TINY),
    "cluster.json": json.dumps({"pools": [_POOL]}),
    "stats.json": json.dumps({"allocated_bytes.all.peak": 1 << 33}),
}


def offline() -> Iterator[Question]:
    """Yield commands that answer without a server, two at a time."""
    for line in _OFFLINE:
        yield _command("headroom offline", line)
        yield _command("headroom offline", f"{line} --json")
    for line in _REFUSED:
        yield _command("headroom refused", line)
    yield _command("headroom help", "--help")
    for name in _COMMANDS:
        yield _command("headroom help", f"{name} --help")


def online() -> Iterator[Question]:
    """Yield commands that ask the service, in order: some of them store something."""
    for line in _ONLINE:
        yield _command("headroom online", f"{line} --server <<server>>", when=IN_ORDER)


def _command(group: str, line: str, when: str = TOGETHER) -> Question:
    argv = tuple(shlex.split(line))
    files = {name: text for name, text in _FILES.items() if name in argv}
    return Question(group=group, method=RUN, argv=argv, files=files, when=when)
