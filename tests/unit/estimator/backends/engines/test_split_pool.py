"""Models whose layers keep a state, on SGLang: two pools share what the weights leave."""

from dataclasses import replace
from typing import Any

import pytest

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, resolve_model
from service.catalog.recorded_models import load_recorded_architecture
from service.estimator.backends.paged_pool.split_pool import SplitPool
from service.estimator.backends.sglang.states import count_request_slots
from service.estimator.estimate import estimate
from service.estimator.model.recorded.narrowing import is_recorded
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.workload import Engine, ServeWorkload

QWEN_SLOT = 36 * (32 * 128 * 128 * 4 + 3 * 8192 * 2)
"""36 layers of Qwen3-Next keep 32 x 128 x 128 in fp32 and three inputs of 8,192 channels."""
MAMBA_SLOT = 64 * (5120 * 16 * 4 + 5120 * 3 * 2)


def _serve(name: str, layout: Layout | None = None, **words: Any) -> Estimate:  # noqa: ANN401 - each word has its own type
    asked: dict[str, Any] = {"num_sequences": 8, "prompt_tokens": 1024, "max_model_len": 8192}
    return estimate(
        load_architecture(resolve_model(name)),
        ServeWorkload(**({"engine": Engine.SGLANG} | asked | words)),
        layout=layout or Layout(),
        device=resolve_gpu("B300-SXM6-270GB").to_device(),
    )


def _get_bytes(answer: Estimate, name: str) -> int:
    return sum(part.bytes for part in answer.components if part.name == name)


def _make_pool(available_bytes: int, slot_bytes: int = 1000, token_bytes: int = 10) -> SplitPool:
    return SplitPool(
        available_bytes=available_bytes,
        token_bytes=token_bytes,
        slot_bytes=slot_bytes,
        request_slots=5,
        context_tokens=4096,
        batched_tokens=2048,
    )


def test_states_get_nine_parts_of_nineteen_in_whole_slots() -> None:
    """``mamba_full_memory_ratio`` is 0.9, one slot is padding, and tokens get what is left."""
    answer = _serve("qwen3-next-80b-a3b")

    assert answer.serving is not None
    states = _get_bytes(answer, "recurrent_state")
    shared = states + _get_bytes(answer, "kv_cache")
    assert states % QWEN_SLOT == 0
    assert 0 <= shared * 9 / 19 - states < QWEN_SLOT
    assert answer.serving.kv_bytes_per_token == 12 * 2 * 2 * 256 * 2
    assert answer.serving.max_num_sequences == (states // QWEN_SLOT - 1) // 5


def test_a_limit_of_tokens_is_left_out_and_said() -> None:
    """The pool is counted larger than it is, never smaller."""
    free = _serve("qwen3-next-80b-a3b")
    limited = _serve("qwen3-next-80b-a3b", kv_pool_tokens=10_000)

    assert limited.serving == free.serving
    assert any("kv_pool_tokens is left out" in text for text in limited.warnings)


def test_a_model_without_attention_leaves_the_tokens_share_empty() -> None:
    """Mamba's tokens take no bytes: SGLang counts as many as the context has, of all requests."""
    answer = _serve("mamba-2.8b", num_sequences=4)
    crowded = _serve("mamba-2.8b", num_sequences=16)

    assert answer.serving is not None
    states = _get_bytes(answer, "recurrent_state")
    assert states % MAMBA_SLOT == 0
    assert answer.serving.kv_pool_bytes == 0
    assert answer.serving.kv_pool_tokens == 8192
    assert answer.serving.kv_cache_bytes == 4 * 3 * MAMBA_SLOT
    assert answer.warnings == ()
    assert any("8 run at once" in text for text in crowded.warnings)


def test_ranks_share_slots_by_heads() -> None:
    """Each of four has eight of 32 value heads and their channels, and one of two key heads."""
    answer = _serve("qwen3-next-80b-a3b", Layout(tensor_parallel=4))

    assert answer.serving is not None
    assert _get_bytes(answer, "recurrent_state") % (QWEN_SLOT // 4) == 0
    assert answer.serving.kv_bytes_per_token == 12 * 2 * 256 * 2


def test_weights_and_pools_are_what_stays_between_steps() -> None:
    """The states are of the budget and persist, as the keys and values do."""
    answer = _serve("qwen3-next-80b-a3b")

    held = ("weights", "kv_cache", "recurrent_state", "request_table")
    assert answer.steady_bytes == sum(_get_bytes(answer, name) for name in held)
    assert answer.stages[0].steady_bytes == answer.steady_bytes


@pytest.mark.parametrize(("num_sequences", "tokens"), [(1, 1), (3, 700), (7, 40), (2, 4096)])
def test_from_the_required_bytes_on_sequences_always_have_room(
    num_sequences: int, tokens: int
) -> None:
    """A slot more takes its bytes from the tokens at once: below, room comes and goes."""
    required = _make_pool(0).count_required_bytes(num_sequences, tokens)
    slots, kept = num_sequences * 5, num_sequences * tokens * 10

    def has_room(available_bytes: int) -> bool:
        pool = _make_pool(available_bytes)
        return pool.slots >= slots and pool.bytes >= kept

    assert all(has_room(required + more) for more in range(0, 5000, 7))
    assert not has_room(required - 1)


def test_what_has_room_already_requires_no_more_than_there_is() -> None:
    """Six slots leave 8,777 of 14,777 B; 15,770 B are what always holds 877 tokens."""
    pool = _make_pool(14_777)

    assert (pool.slots, pool.num_blocks) == (5, 877)
    assert pool.count_required_bytes(1, 877) == 14_777
    assert pool.count_required_bytes(1, 878) == 15_780


@pytest.mark.parametrize(
    ("model_class", "slots"),
    [("NemotronHForCausalLM", 5), ("GraniteMoeHybridForCausalLM", 5), ("Lfm2ForCausalLM", 3)],
)
def test_overlapped_steps_take_two_slots_more(model_class: str, slots: int) -> None:
    """The class of a recorded type says whether SGLang overlaps its steps."""
    model = load_recorded_architecture("lfm2-default")
    assert is_recorded(model)
    model = replace(model, recorded=replace(model.recorded, model_class=model_class))

    counted = count_request_slots(model)

    assert counted == slots


@pytest.mark.parametrize(
    ("name", "layout", "words", "error", "names"),
    [
        ("jamba-v0.1", Layout(), {}, InvalidInputError, "engine vllm or transformers"),
        ("mamba-2.8b", Layout(), {"engine_version": "0.5.10"}, NotModelledError, "0.5.20"),
        ("mamba-2.8b", Layout(pipeline_parallel=2), {}, NotModelledError, "engine vllm"),
        ("qwen3-next-80b-a3b", Layout(tensor_parallel=5), {}, NotModelledError, "do not share"),
    ],
)
def test_what_sglang_has_not_is_refused(
    name: str, layout: Layout, words: dict[str, Any], error: type[Exception], names: str
) -> None:
    """Each refusal says what would be right."""
    with pytest.raises(error) as refused:
        _serve(name, layout, **words)

    assert names in str(refused.value)
