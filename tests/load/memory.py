"""Memory of a server over very many questions, no two alike: ``python -m tests.load.memory``.

The server's application is asked in this process, without a socket. Nine of ten questions are about
serving, one about training; of one in a thousand the allocator is replayed.
"""

import argparse
import asyncio
import gc
import json
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import count, islice
from typing import Any

import psutil
from litestar.types import ASGIApp, HTTPReceiveMessage, Message
from rich.console import Console
from rich.table import Table

from service.api.application import make_application
from service.api.resources.fit import FAST_ROUTE
from service.app import ROUTERS
from tests.unit.api.builders import parts

SERVED = ("llama-3.1-8b", "llama-3.1-70b", "qwen2.5-7b", "mistral-7b-v0.1")
TRAINED = ("llama-2-7b", "llama-3.1-8b", "qwen2.5-7b", "gpt2", "bert-base", "gemma-2-9b")
GPUS = ("A100-SXM4-80GB", "H100-SXM5-80GB", "H200-SXM5-141GB", "L40S")
OK = 200
STEPS = 10


def iter_bodies() -> Iterator[bytes]:
    """Yield bodies of ``POST /v1/fit`` without end, no two alike."""
    for number in count():
        question = make_training(number // 10) if number % 10 == 0 else make_serving(number)
        yield json.dumps(question).encode()


def make_serving(number: int) -> dict[str, Any]:
    """Return the question of a number about a server."""
    rest, model = divmod(number, len(SERVED))
    rest, gpu = divmod(rest, len(GPUS))
    rest, sequences = divmod(rest, 256)
    workload = {
        "task": "serve",
        "engine": "vllm",
        "num_sequences": 1 + sequences,
        "prompt_tokens": 128 + rest,
        "output_tokens": 256,
    }
    return {"model": SERVED[model], "gpu": GPUS[gpu], "workload": workload, "include": []}


def make_training(number: int) -> dict[str, Any]:
    """Return the question of a number about training."""
    rest, model = divmod(number, len(TRAINED))
    rest, gpu = divmod(rest, len(GPUS))
    length, batch = divmod(rest, 8)
    workload = {"task": "train", "sequence_length": 8 + length, "micro_batch_size": 1 + batch}
    layout = {"data_parallel": 16, "zero_stage": 3, "sharding": "fsdp2"}
    question = {
        "model": TRAINED[model],
        "gpu": GPUS[gpu],
        "workload": workload | {"method": "full"},
        "layout": layout,
    }
    return question if number % 100 == 0 else question | {"include": []}


async def ask(app: ASGIApp, body: bytes) -> tuple[int, bytes]:
    """Return the status and the body of the answer to a question."""
    messages: list[Any] = []

    async def receive() -> HTTPReceiveMessage:
        if messages or sent:
            await asyncio.Event().wait()
        sent.append(True)
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        messages.append(message)

    sent: list[bool] = []
    scope: Any = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/v1/fit",
        "raw_path": b"/v1/fit",
        "query_string": b"",
        "root_path": "",
        "headers": [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"host", b"localhost"),
        ],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    await app(scope, receive, send)
    return int(messages[0]["status"]), b"".join(m.get("body", b"") for m in messages[1:])


async def measure(number: int) -> Table:
    """Ask so many questions and return the memory on the way."""
    deps = parts()
    app = make_application(deps, handlers=ROUTERS, fast_route=FAST_ROUTE)
    bodies = iter_bodies()
    table = Table("questions", "resident MB", "kept answers MB", "seconds of a processor")
    process = psutil.Process()
    for step in range(STEPS + 1):
        gc.collect()
        table.add_row(
            f"{step * number // STEPS:,}",
            f"{process.memory_info().rss / 1e6:.0f}",
            f"{deps.answers.num_bytes / 1e6:.1f}",
            f"{time.process_time():.0f}",
        )
        for body in islice(bodies, number // STEPS if step < STEPS else 0):
            status, answer = await ask(app, body)
            if status != OK:
                message = f"{body.decode()} was answered with {status}: {answer.decode()}"
                raise RuntimeError(message)
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask and print the memory."""
    parser = argparse.ArgumentParser(prog="python -m tests.load.memory", description=__doc__)
    parser.add_argument("--questions", type=int, default=1_000_000)
    options = parser.parse_args(arguments)
    Console(width=120).print(asyncio.run(measure(options.questions)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
