"""Bodies of every door, and what a stranger makes of them.

Each is the example of the API's own document or one of a few more, changed at random places. The
same seed makes the same body.
"""

import copy
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from service.contract.to_answer.models import build_gguf
from tests.unit.formats.checkpoints.files import read_model

GROWN_BYTES = 900_000
"""Of a body that is grown: most doors take 1,000,000."""
_ODD: tuple[Any, ...] = (
    *(None, True, -1, 0, 3, 2**63, -(2**63), 10**40, 1e308, 0.1, "", "a", "null", "1e999"),
    *([], {}, [[]], {"": {}}, [None], {"a": 1}, "\ud800", "\x00", "a" * 300),
)
_WORDS = (
    *("1:1", ":1", "&a ", "*a ", "<<: *a\n", "$(", "${a:-", "$((1+", "`", "'", '"', "\\", "\n"),
    *("<<A\n", "{", "}", "[", "]", "---\n", "- ", "? ", "!!int ", "!!python/object:os.system "),
    *("0x", "9", "NaN", ".inf", "#HEADROOM ", "#SBATCH --gpus=", "--", "=", ";", "|", "&&", "%"),
    *("torchrun ", "vllm serve ", "python -m ", "accelerate launch ", "$A", "export A=", "\t"),
    *("a(){ a; }\n", "if a; then ", "for a in b; do ", "bash -c ", "\ud800", "\u2028", "\x1b[2J"),
    *(" ", ",", "a: "),
)
_SCRIPT = "#!/bin/bash\n#HEADROOM llama-2-7b --task train --sequence-length 4096\ntorchrun t.py\n"
_BATCH = "#!/bin/bash\n#SBATCH --gres=gpu:h100-sxm:2 -N 2\nexport CUDA_VISIBLE_DEVICES=0\n"
_ACCELERATE = (
    "accelerate launch --num_processes 2 train.py --model_name_or_path gpt2 --max_length 128"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """A path, and a body that it takes."""

    method: str
    path: str
    body: Any


def list_doors(openapi: dict[str, Any]) -> list[Door]:
    """Return the doors that the API's document has examples of, and some more."""
    return [*_iter_examples(openapi), *_list_more()]


def _iter_examples(openapi: dict[str, Any]) -> Iterator[Door]:
    for path, operations in openapi["paths"].items():
        for method, operation in operations.items():
            content = operation.get("requestBody", {}).get("content", {})
            example = content.get("application/json", {}).get("example")
            if example is not None:
                shown = path.replace("{mode}", "warn").replace("{policy}", "run")
                shown = shown.replace("/v1/formats/{name}", "/v1/formats/slurm")
                yield Door(method=method, path=shown.replace("{name}", "lab"), body=example)


def _list_more() -> list[Door]:
    """Return doors whose example has not all that they read."""
    serve = {"task": "serve", "num_sequences": 2, "prompt_tokens": 64, "engine": "llama_cpp"}
    pictures = {"task": "train", "sequence_length": 512, "images": {"per_sequence": 1}}
    task = f"resources:\n  accelerators: {{A100-80GB: 1}}\nnum_nodes: 1\nrun: |\n  {_ACCELERATE}\n"
    gguf = {"gguf": msgspec.to_builtins(build_gguf(read_model("llama")))}
    count = {"model": "llama-2-7b", "workload": {"task": "train", "sequence_length": 64}}
    return [
        Door(method="post", path=path, body=body)
        for path, body in (
            ("/v1/launches/import", {"files": [{"name": "run.sh", "content": _SCRIPT}]}),
            ("/v1/launches/import", {"command": _ACCELERATE, "gpu": "L4"}),
            (
                "/v1/launches/import",
                {
                    "files": [{"name": "j.sbatch", "content": f"{_BATCH}srun {_ACCELERATE}\n"}],
                    "gpu": {"memory_bytes": 85_899_345_920},
                },
            ),
            (
                "/v1/launches/import",
                {"files": [{"name": "a.yaml", "content": "base_model: gpt2\nsequence_len: 64\n"}]},
            ),
            ("/v1/hooks/skypilot/change", {"task": task, "skypilot_config": "{}"}),
            (
                "/v1/hooks/slurm/warn",
                {"command": "sbatch", "options": {"gres": "gpu:1"}, "script": _ACCELERATE},
            ),
            ("/v1/how-many?as=count", {**count, "gpu": "H100-SXM5-80GB"}),
            ("/mcp", _call_tool("fit", {**count, "gpu": "L4"})),
            ("/mcp", _call_tool("post_mortem", {"content": "CUDA out of memory."})),
            ("/v1/fit", {"model": gguf, "workload": serve, "gpu": "L4"}),
            (
                "/v1/fit",
                {"model": {"hub": {"repository": "a/b"}}, "workload": serve, "gpu": "L4"},
            ),
            ("/v1/fit", {"model": "qwen2.5-vl-7b", "workload": pictures, "gpu": "L4"}),
            ("/v1/models", {"name": "mine", "source": gguf}),
            (
                "/v1/explain",
                {"content": "torch.OutOfMemoryError: CUDA out of memory.", "question": {}},
            ),
        )
    ]


def change_body(door: Door, seed: int) -> bytes:
    """Return a body of a door with up to four random changes."""
    dice = random.Random(f"{door.path} {seed}")  # noqa: S311 - dice, not a secret
    holder = [copy.deepcopy(door.body)]
    for _ in range(dice.randint(1, 4)):
        _change(dice, holder)
    return _encode(holder[0])


def grow_body(door: Door, seed: int) -> bytes:
    """Return a body of which one place was repeated to the size that a door takes."""
    dice = random.Random(f"grown {door.path} {seed}")  # noqa: S311 - dice, not a secret
    holder = [copy.deepcopy(door.body)]
    if dice.random() < 1 / 2:
        _change(dice, holder)
    place, key = _choose(dice, holder)
    place[key] = _grow(dice, place[key])
    return _encode(holder[0])


def _call_tool(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return a message of MCP."""
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def _encode(body: object) -> bytes:
    return json.dumps(body).encode()


def _choose(dice: random.Random, holder: list[Any]) -> tuple[Any, Any]:
    """Return a random place: a container, and an index or a name in it."""
    places: list[tuple[Any, Any]] = [(holder, 0)]
    for container, key in places:
        value = container[key]
        if isinstance(value, dict):
            places += [(value, name) for name in value]
        elif isinstance(value, list):
            places += [(value, index) for index in range(len(value))][:20]
    return dice.choice(places)


def _change(dice: random.Random, holder: list[Any]) -> None:
    place, key = _choose(dice, holder)
    value = place[key]
    if isinstance(value, str) and dice.random() < 3 / 4:
        place[key] = _change_text(dice, value)
    elif isinstance(value, dict) and value and dice.random() < 1 / 2:
        name = dice.choice(list(value))
        value[dice.choice(_WORDS)] = value.pop(name)
    elif isinstance(value, list) and value and dice.random() < 1 / 2:
        place[key] = value * dice.randint(0, 3)
    else:
        place[key] = copy.deepcopy(dice.choice(_ODD))


def _change_text(dice: random.Random, text: str) -> str:
    begin, end = sorted(dice.randint(0, len(text)) for _ in range(2))
    middle = dice.choice((dice.choice(_WORDS), dice.choice(_WORDS) * 40, text[begin:end] * 3, ""))
    return text[:begin] + middle + text[dice.choice((begin, end)) :]


def _grow(dice: random.Random, value: object) -> object:
    """Return a value of hundreds of thousands of bytes."""
    if isinstance(value, list) and value:
        return value * (GROWN_BYTES // len(_encode(value)) or 1)
    if isinstance(value, dict) and value:
        entry = dice.choice(list(value.values()))
        size = len(_encode(entry)) + 12
        return value | {f"a{number}": entry for number in range(GROWN_BYTES // size)}
    text = value if isinstance(value, str) else ""
    begin, end = sorted(dice.randint(0, len(text)) for _ in range(2))
    part = dice.choice((dice.choice(_WORDS), text[begin:end] or "a", dice.choice(_WORDS) + "a"))
    repeated = part * (GROWN_BYTES // len(json.dumps(part)))
    return text[:begin] + repeated + text[end:]
