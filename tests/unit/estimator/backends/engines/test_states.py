"""Models whose layers keep a state for each sequence, on vLLM."""

from dataclasses import replace
from typing import Any

import pytest

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, resolve_model
from service.estimator.backends.paged_pool.blocks import Paging, build_pool
from service.estimator.backends.paged_pool.layer_caches import (
    LayerCache,
    LayerState,
    count_slot_bytes,
    merge_states,
)
from service.estimator.backends.paged_pool.recorded_ranks import split_recorded
from service.estimator.backends.sglang.states import get_recurrence_dtype
from service.estimator.estimate import estimate
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.model.recorded.architecture import RecordedArchitecture, build_recorded
from service.estimator.model.recorded.narrowing import is_recorded
from service.estimator.model.recorded.recorded_model import SequenceState
from service.estimator.model.tensor_parallel.split_plan import SplitPlan
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.speculative import Speculative
from service.estimator.values.workload import Engine, ServeWorkload

BAMBA = architecture_from_config(
    {
        "model_type": "bamba",
        "vocab_size": 128256,
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "attn_layer_indices": [9, 18, 27],
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 14336,
        "mamba_n_heads": 128,
        "mamba_d_head": 64,
        "mamba_n_groups": 1,
        "mamba_d_state": 128,
        "mamba_expand": 2,
    }
)
PAGING = Paging(block_tokens=16, batched_tokens=8192, hybrid=True, counts_requests=True)
# Qwen3.5-4B: 8 layers cache 4 heads of 256, 24 keep 32 x 128 x 128 fp32 and 3 x 8192 in 16 bits.
QWEN_STATE = LayerState(bytes=32 * 128 * 128 * 4 + 3 * 8192 * 2, count=24, exports=True)
QWEN = (LayerCache(2048, None, 8),), (QWEN_STATE,)


def _serve(name: str, layout: Layout | None = None, **words: Any) -> Estimate:  # noqa: ANN401 - each word has its own type
    asked: dict[str, Any] = {"num_sequences": 8, "prompt_tokens": 4096, "max_model_len": 32768}
    return estimate(
        load_architecture(resolve_model(name)),
        ServeWorkload(**({"engine": Engine.VLLM} | asked | words)),
        layout=layout or Layout(),
        device=resolve_gpu("B200-SXM6-180GB").to_device(),
    )


def _get_pool(answer: Estimate) -> str:
    return next(part.formula for part in answer.components if part.name == "kv_cache")


def test_a_block_of_attention_has_as_many_tokens_as_fill_a_state() -> None:
    """The log of vLLM 0.22.0 sets 528 tokens, pads by 0.76%, has 11.11 GiB of pool and prints
    137.80 sequences of 1,024 tokens: 141,107.
    """
    caches, states = QWEN
    pool = build_pool(caches, 2, int(11.11 * 2**30), PAGING, states)
    page = pool.block_bytes // 8

    assert pool.paging.block_tokens == 528
    assert page / states[0].bytes == pytest.approx(1.0076, abs=5e-5)
    assert pool.count_blocks(1024) == 2 + 3
    assert pool.count_sequences(1024) == pytest.approx(137.80, rel=1e-3)
    assert pool.count_tokens(1024) == pytest.approx(141_107, rel=1e-3)


def test_the_blocks_of_qwen3_next_have_544_tokens() -> None:
    """Its states are in 16 bits: 32 x 128 x 128 and 3 x 8192 are 536 tokens of 2,048 bytes."""
    assert "blocks x 544 tokens x 24576 B" in _get_pool(_serve("qwen3-next-80b-a3b"))


@pytest.mark.parametrize(
    ("name", "tokens"), [("qwen3.5-4b", 528), ("qwen3.5-9b", 528), ("qwen3.5-35b-a3b", 1056)]
)
def test_the_blocks_of_qwen3_5_follow_its_mamba_ssm_dtype(name: str, tokens: int) -> None:
    """Start-up logs of vLLM set 528 and 1,056 tokens: the config has the state in fp32."""
    assert f"blocks x {tokens} tokens x" in _get_pool(_serve(name))


def test_a_recording_of_another_mamba_ssm_dtype_has_its_bytes() -> None:
    """Both engines follow the config; of the state 32 x 128 x 128 are 2 bytes each in bf16."""
    fp32 = load_architecture(resolve_model("qwen3.5-4b"))
    assert is_recorded(fp32)
    spec = replace(fp32.recorded.spec, state_dtype=DType.BF16)
    bf16 = build_recorded(replace(fp32.recorded, spec=spec))
    kinds = tuple(count for _, count in fp32.blocks)
    states = [max(s.bytes for s in merge_states(m, kinds, DType.BF16)) for m in (fp32, bf16)]
    slots = [
        count_slot_bytes(m, convolution=DType.BF16, recurrence=get_recurrence_dtype(m))
        for m in (fp32, bf16)
    ]

    assert states == [32 * 128 * 128 * size + 3 * 8192 * 2 for size in (4, 2)]
    assert slots == [24 * size for size in states]


@pytest.mark.parametrize(
    ("version", "blocks"), [("0.22.0", 8 + 3), ("0.26.0", 8 + 6), ("0.29.0", 8 + 9)]
)
def test_cached_prefixes_take_more_states(version: str, blocks: int) -> None:
    """4,096 tokens are eight blocks of 544; three groups of states take one, two or three each."""
    answer = _serve("qwen3-next-80b-a3b", engine_version=version)

    assert answer.serving is not None
    assert answer.serving.kv_cache_bytes == 8 * blocks * 544 * 24576


def test_states_alone_are_a_block_for_each_sequence() -> None:
    """Mamba keeps 5,120 x (16 + 3) elements in each of 64 layers, however long a sequence is."""
    short, long = (_serve("mamba-2.8b", prompt_tokens=tokens) for tokens in (16, 4096))

    assert short.serving is not None
    assert long.serving is not None
    assert short.serving.kv_cache_bytes == 8 * 64 * 5120 * 19 * 2
    assert short.serving.required_bytes == long.serving.required_bytes
    assert "sequences x 12451840 B of states" in _get_pool(short)


def test_stages_share_layers_and_states() -> None:
    """Four stages of twelve layers have three of attention each, which make the groups."""
    answer = _serve("qwen3-next-80b-a3b", Layout(pipeline_parallel=4))

    assert len(answer.stages) == 4
    assert "blocks x 544 tokens x 6144 B" in _get_pool(answer)


@pytest.mark.parametrize(
    ("layout", "words", "refusal"),
    [
        (Layout(), {"engine": Engine.TENSORRT_LLM}, "engine vllm"),
        (Layout(tensor_parallel=3), {}, "tensor_parallel 1"),
    ],
)
def test_what_has_no_term_says_what_has(
    layout: Layout, words: dict[str, Any], refusal: str
) -> None:
    """Other engines, uneven states and drafts are refused."""
    with pytest.raises(NotModelledError) as error:
        _serve("jamba-v0.1", layout, **words)

    assert refusal in str(error.value) + str(error.value.modelled)


def test_sglang_guesses_beside_no_states() -> None:
    """What it keeps of a state for each guess has no term."""
    with pytest.raises(NotModelledError) as error:
        _serve(
            "qwen3-next-80b-a3b",
            engine=Engine.SGLANG,
            speculative=Speculative(num_tokens=2),
        )

    assert "engine vllm" in error.value.modelled


@pytest.mark.parametrize(
    ("name", "ranks"), [("qwen3-next-80b-a3b", 2), ("jamba-v0.1", 4), ("mamba-codestral-7b", 8)]
)
def test_ranks_share_states_and_their_mixers(name: str, ranks: int) -> None:
    """A rank has its part of the weights but for norms, routers and gates of shared experts, and of
    a state, whose block it pads anew.
    """
    one, many = _serve(name), _serve(name, Layout(tensor_parallel=ranks))

    weights = [
        sum(part.bytes for part in answer.components if part.name == "weights")
        for answer in (one, many)
    ]
    assert weights[1] == pytest.approx(weights[0] / ranks, rel=5e-3)
    assert one.serving is not None
    assert many.serving is not None
    share = many.serving.kv_cache_bytes / one.serving.kv_cache_bytes
    assert share == pytest.approx(1 / ranks, rel=0.06)


def test_padding_follows_the_larger_state() -> None:
    """A state of one byte more than 33 x 16 tokens takes another sixteen of them."""
    caches, (state,) = QWEN
    full = 528 * 4096

    tokens = [
        build_pool(caches, 2, 2**30, PAGING, (replace(state, bytes=size),)).paging.block_tokens
        for size in (full, full + 1)
    ]

    assert tokens == [528, 544]


@pytest.mark.parametrize("engine", [Engine.VLLM, Engine.SGLANG])
def test_encoder_decoders_of_text_have_no_engine(engine: Engine) -> None:
    """T5 is in neither registry: the refusal says who serves it."""
    with pytest.raises(InvalidInputError, match="ask for engine transformers"):
        _serve("t5-base", engine=engine, max_model_len=None)


@pytest.mark.parametrize("version", [None, "0.24.0"])
def test_models_that_vllm_dropped_are_refused_with_their_last_release(version: str | None) -> None:
    """Bamba left after 0.23, as vLLM's registry says; before, it is answered."""
    served: dict[str, Any] = {
        "engine": Engine.VLLM,
        "num_sequences": 1,
        "prompt_tokens": 64,
        "max_model_len": 128,
    }
    device = resolve_gpu("H100-SXM5-80GB").to_device()
    old, new = (
        ServeWorkload(**(served | {"engine_version": text})) for text in ("0.23.0", version)
    )

    answer = estimate(BAMBA, old, layout=Layout(), device=device)
    with pytest.raises(InvalidInputError, match=r"engine_version 0\.23\.0"):
        estimate(BAMBA, new, layout=Layout(), device=device)

    assert answer.serving is not None
    assert answer.serving.kv_pool_tokens


@pytest.mark.parametrize("engine", [Engine.VLLM, Engine.SGLANG])
def test_ranks_share_the_channels_of_a_model_without_heads(engine: Engine) -> None:
    """Falcon Mamba's 8,192 channels are halved; it was refused for one attention head."""
    one, two = (
        _serve("falcon-mamba-7b", Layout(tensor_parallel=ranks), engine=engine) for ranks in (1, 2)
    )

    assert one.serving is not None
    assert two.serving is not None
    assert two.serving.kv_cache_bytes * 2 == one.serving.kv_cache_bytes
    with pytest.raises(NotModelledError, match="channels that so many ranks do not share"):
        _serve("falcon-mamba-7b", Layout(tensor_parallel=3), engine=engine)


def _split(name: str, ranks: int) -> RecordedArchitecture:
    model = load_architecture(resolve_model(name))
    assert isinstance(model, RecordedArchitecture)
    return split_recorded(model, ranks, SplitPlan(expert_ranks=ranks), by_plan=False)


def test_ranks_share_the_heads_of_a_recorded_delta_rule() -> None:
    """Of Qwen3.5 397B on eight: 64 heads of values and 16 of keys, and what each of them has.

    Norms within a head, routers and what leads into the hidden states stand on every rank.
    """
    one, eight = (_split("Qwen/Qwen3.5-397B-A17B", ranks) for ranks in (1, 8))
    whole, part = (model.list_recorded_blocks()[0].layer for model in (one, eight))

    shapes = {weight.name: weight.shape for weight in part.weights}
    assert whole.cache is not None
    assert part.cache is not None
    assert part.cache.states == (
        SequenceState(convolution=(12288 // 8, 4), recurrent=(64 // 8, 128, 128)),
    )
    assert whole.cache.states[0].convolution == (12288, 4)
    assert shapes["linear_attn.in_proj_qkv.weight"] == (12288 // 8, 4096)
    assert shapes["linear_attn.out_proj.weight"] == (4096, 8192 // 8)
    assert shapes["linear_attn.conv1d.weight"] == (12288 // 8, 1, 4)
    assert shapes["linear_attn.A_log"] == shapes["linear_attn.dt_bias"] == (8,)
    assert shapes["linear_attn.norm.weight"] == (128,)


@pytest.mark.parametrize("engine", [Engine.VLLM, Engine.SGLANG])
def test_a_recorded_delta_rule_is_served_on_several_ranks(engine: Engine) -> None:
    """As many as divide its heads of keys and of values."""
    one, eight = (
        _serve("Qwen/Qwen3.5-27B", Layout(tensor_parallel=ranks), engine=engine) for ranks in (1, 8)
    )

    weights = [
        next(part.bytes for part in answer.components if part.name == "weights")
        for answer in (one, eight)
    ]
    assert 1 / 8 < weights[1] / weights[0] < 1 / 6
    with pytest.raises(InvalidInputError, match="tensor_parallel 32 does not divide 48 outputs"):
        _serve("Qwen/Qwen3.5-27B", Layout(tensor_parallel=32), engine=engine)
    with pytest.raises(NotModelledError, match="divides heads of keys and of values"):
        _serve("Qwen/Qwen3.5-397B-A17B", Layout(tensor_parallel=32), engine=engine)
