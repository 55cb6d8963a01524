"""POST /v1/fit/batch: thousands of fits in one call.

Worked out in slices beside the event loop, which answers others in between.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from time import perf_counter
from typing import Any

import anyio
import anyio.to_thread
from litestar import Request, post
from litestar.params import RawBody
from litestar.types import ASGIApp

from service.access.keys import Scope
from service.api.computing.budgets import Budget
from service.api.http.computing import compute
from service.api.http.decoding import check_value_count, read_envelope, require_json
from service.api.http.dependencies import get_dependencies
from service.api.http.disconnect import run_until_disconnect
from service.api.http.operation import BODY_PROBLEMS, STORED_PROBLEMS, Operation, Reply
from service.api.http.problems import get_request_id
from service.api.http.responses import bytes_response
from service.api.resources.batch_items import BatchItems
from service.contract.schemas.batch import (
    MAX_ITEMS,
    BatchAnswer,
    BatchDetail,
    BatchEnvelope,
    BatchRequest,
)
from service.contract.schemas.models import HubToken

MAX_BODY_BYTES = 32 * 2**20
EXAMPLE = {
    "items": [
        {
            "model": "llama-2-7b",
            "workload": {
                "task": "train",
                "sequence_length": length,
                "activation_checkpointing": "full",
            },
            "gpu": "A100-SXM4-80GB",
            "layout": {"data_parallel": 8, "zero_stage": 3},
        }
        for length in (2048, 4096)
    ],
    "detail": "numbers",
}
MAX_ITEM_VALUES = 200
"""Of an item on average; a question with a decoder's config has a hundred. An empty list of a body
takes 68 bytes of memory: 140 MB in all.
"""
SLICE_S = 0.004
"""Below the 5 ms after which a thread must hand the interpreter over (sys.getswitchinterval)."""


@post(
    "/batch",
    status_code=200,
    request_max_body_size=MAX_BODY_BYTES,
    operation=Operation(
        id="fit_batch",
        scope=Scope.PLAN,
        tag="fit",
        summary=f"Answer up to {MAX_ITEMS:,} fit questions in one call, in order.",
        description="An item that is refused has its problem in its place, and every other its "
        "answer. Equal items are worked "
        f"out once. The body may have {MAX_BODY_BYTES // 2**20} MiB.",
        body=BatchRequest,
        headers={"Hub-Token": HubToken},
        example=EXAMPLE,
        replies={200: Reply(description="One answer per item, in order.", bodies=(BatchAnswer,))},
        problems=(*BODY_PROBLEMS, *STORED_PROBLEMS),
    ),
)
async def fit_batch(request: Request[Any, Any, Any], body: RawBody) -> ASGIApp:
    """Say of each workload whether it fits."""
    deps = get_dependencies(request)
    require_json(request.scope)
    check_value_count(body, MAX_ITEMS * MAX_ITEM_VALUES)
    envelope = await anyio.to_thread.run_sync(partial(read_envelope, body, BatchEnvelope))
    full = envelope.detail is BatchDetail.FULL
    items = BatchItems(deps, full=full, scope=request.scope, request_id=get_request_id(request))
    return await run_until_disconnect(
        request.receive,
        partial(_answer_items, request, items, [bytes(item) for item in envelope.items]),
    )


async def _answer_items(
    request: Request[Any, Any, Any], items: BatchItems, raw_items: Sequence[bytes]
) -> ASGIApp:
    deps = get_dependencies(request)
    answers: list[bytes] = []
    items.recall(raw_items)
    pending = iter(enumerate(raw_items))
    while len(answers) < len(raw_items):
        answers += await compute(
            deps, request.scope, deps.batch_turns, partial(_answer_slice, items, pending)
        )
    items.keep()
    for verdict, number in items.verdicts.items():
        deps.metrics.count_fit(verdict, number)
    return bytes_response(_join_answers(answers), "application/json")


def _answer_slice(
    items: BatchItems, pending: Iterator[tuple[int, bytes]], budget: Budget
) -> list[bytes]:
    """Answer items for one slice of time.

    At least one while any is left.
    """
    end, answers = perf_counter() + SLICE_S, []
    for index, item in pending:
        answers.append(items.answer(index, item, budget))
        if perf_counter() >= end:
            break
    return answers


def _join_answers(answers: Sequence[bytes]) -> bytes:
    return b'{"items":[' + b",".join(answers) + b"]}"
