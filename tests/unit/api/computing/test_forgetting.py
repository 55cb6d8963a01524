"""What a process forgets that has grown too large."""

from collections.abc import Iterator
from typing import Any

from service.estimator.values.memo import Memo
from tests.unit.api.builders import FIT, parts, served
from tests.unit.api.computing.asking import drop_times

SERVED = {
    "task": "serve",
    "engine": "vllm",
    "num_sequences": 4,
    "prompt_tokens": 64,
    "output_tokens": 8,
}
QUESTIONS: tuple[dict[str, Any], ...] = tuple(
    {"model": "gpt2", "gpu": FIT["gpu"], "workload": workload}
    for workload in (SERVED, {"task": "train", "sequence_length": 64})
)


def iter_memos(value: object, seen: set[int]) -> Iterator[Memo[Any]]:
    """Yield the memos that a value holds by its attributes and in its dicts."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, Memo):
        yield value
    held = value.values() if isinstance(value, dict) else getattr(value, "__dict__", {}).values()
    for part in held:
        yield from iter_memos(part, seen)


def test_a_process_that_forgets_keeps_nothing_and_answers_as_before() -> None:
    """No memo has a value left, no question counts as answered, and answers are the same."""
    deps = parts()
    with served(deps) as client:
        before = [client.post("/v1/fit", json=question).json() for question in QUESTIONS]
        memos = list(iter_memos(deps.plans, set()))
        kept = sum(len(memo) for memo in memos)
        deps.forget()
        left = sum(len(memo) for memo in memos)
        changed = [
            client.post("/v1/fit", json=question | {"confidence": 0.9}) for question in QUESTIONS
        ]
        with served() as other:
            expected = [
                other.post("/v1/fit", json=question | {"confidence": 0.9}) for question in QUESTIONS
            ]

    assert all("verdict" in answer for answer in before)
    assert kept > 10
    assert left == 0
    assert [drop_times(a.json()) for a in changed] == [drop_times(a.json()) for a in expected]
