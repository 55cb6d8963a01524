"""Memory of a server over very many questions, no two alike: ``python -m tests.load.memory``.

The server's application is asked in this process, without a socket. Nine of ten questions are about
serving, one about training; of one in a thousand the allocator is replayed.

With ``--varied`` they are about every model that is shipped, each in another layout than before,
two of three about training and replayed; with ``--mixed`` of every kind, batches, remedies and
searches too. The guard of the memory looks at every twentieth of both.
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
from service.catalog.models import list_model_names
from service.usecases.operations.kept_memory import KeptMemory
from tests.load.mixed import iter_mixed
from tests.unit.api.builders import parts

SERVED = ("llama-3.1-8b", "llama-3.1-70b", "qwen2.5-7b", "mistral-7b-v0.1")
TRAINED = ("llama-2-7b", "llama-3.1-8b", "qwen2.5-7b", "gpt2", "bert-base", "gemma-2-9b")
GPUS = ("A100-SXM4-80GB", "H100-SXM5-80GB", "H200-SXM5-141GB", "L40S")
OK, REFUSED = 200, 422
LOOK_EVERY = 20
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
    # A million questions are no longer than BERT's 512 positions.
    length, batch = divmod(rest, 16)
    workload = {"task": "train", "sequence_length": 8 + length, "micro_batch_size": 1 + batch}
    layout = {"data_parallel": 16, "zero_stage": 3, "sharding": "fsdp2"}
    question = {
        "model": TRAINED[model],
        "gpu": GPUS[gpu],
        "workload": workload | {"method": "full"},
        "layout": layout,
    }
    return question if number % 100 == 0 else question | {"include": []}


def iter_varied() -> Iterator[tuple[str, bytes]]:
    """Yield paths and bodies about all models without end, no two alike."""
    names = sorted(list_model_names())
    for number in count():
        turn, place = divmod(number, len(names))
        make = make_varied_serving if number % 3 == 2 else make_varied_training
        question = {"model": names[place], "gpu": GPUS[2], "remedies": False, **make(turn)}
        yield "/v1/fit", json.dumps(question).encode()


def make_varied_serving(turn: int) -> dict[str, Any]:
    """Return a server's part of a question."""
    load = {"num_sequences": 1 + turn, "prompt_tokens": 128 + turn}
    return {"workload": {"task": "serve", "engine": "vllm", **load}}


def make_varied_training(turn: int) -> dict[str, Any]:
    """Return a training's part of a question."""
    step = {"sequence_length": 64 + 16 * turn, "micro_batch_size": 1 + turn % 4}
    layout = {"data_parallel": 8 * (1 + turn % 2), "zero_stage": turn % 4}
    return {
        "workload": {"task": "train", "method": "full", **step},
        "layout": layout | {"sharding": "deepspeed"},
    }


async def ask(app: ASGIApp, body: bytes, path: str = "/v1/fit") -> tuple[int, bytes]:
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
        "path": path,
        "raw_path": path.encode(),
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


async def measure_guarded(asked: Iterator[tuple[str, bytes]], number: int, max_bytes: int) -> Table:
    """Ask so many questions, and return the memory on the way.

    What a model cannot be asked is refused, and counts as a question too.
    """
    deps = parts()
    app = make_application(deps, handlers=ROUTERS, fast_route=FAST_ROUTE)
    emptied: list[int] = []
    resident: list[int] = []
    guard = KeptMemory(
        deps.forget,
        on_count=resident.append,
        on_empty=lambda: emptied.append(len(resident)),
        max_bytes=max_bytes,
    )
    table = Table("questions", "most MB since", "emptied", "seconds of a processor")
    for step in range(STEPS):
        for place, (path, body) in enumerate(islice(asked, number // STEPS)):
            status, answer = await ask(app, body, path)
            if status not in {OK, REFUSED}:
                message = f"{path} {body!r} was answered with {status}: {answer!r}"
                raise RuntimeError(message)
            if place % LOOK_EVERY == 0:
                guard.check()
        table.add_row(
            f"{(step + 1) * number // STEPS:,}",
            f"{max(resident) / 1e6:.0f}",
            str(len(emptied)),
            f"{time.process_time():.0f}",
        )
        resident.clear()
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask and print the memory."""
    parser = argparse.ArgumentParser(prog="python -m tests.load.memory", description=__doc__)
    parser.add_argument("--questions", type=int, default=1_000_000)
    parser.add_argument("--varied", action="store_true", help="ask about all models")
    parser.add_argument("--mixed", action="store_true", help="ask questions of every kind")
    parser.add_argument("--bound-mib", type=int, default=512, help="of the guard, if there is one")
    options = parser.parse_args(arguments)
    asked = iter_mixed() if options.mixed else iter_varied()
    measured = (
        measure_guarded(asked, options.questions, options.bound_mib * 2**20)
        if options.varied or options.mixed
        else measure(options.questions)
    )
    Console(width=120).print(asyncio.run(measured))
    return 0


if __name__ == "__main__":
    sys.exit(main())
