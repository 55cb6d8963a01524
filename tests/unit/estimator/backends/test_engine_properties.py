"""Properties of every answer about a serving engine."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.catalog.models import load_architecture, resolve_model
from service.estimator.backends.paged_pool.rank_memory import build_ranks
from service.estimator.estimate import estimate
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.device import Device
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Layout
from service.estimator.values.units import GIB
from service.estimator.values.workload import Engine, ServeWorkload
from service.planner.fit.verdict import Verdict, judge
from tests.unit.estimator.backends.test_corners import H100, POOLED, serve
from tests.unit.estimator.backends.test_vllm import LLAMA_8B


@settings(max_examples=25, deadline=None)
@given(
    engine=st.sampled_from(list(Engine)),
    sequences=st.integers(1, 64),
    tokens=st.integers(1, 2048),
    model=st.sampled_from(
        ["llama-3-8b", "gemma-2-2b", "qwen3-30b-a3b", "deepseek-v2-lite", "gpt2"]
    ),
)
def test_more_never_needs_less(engine: Engine, sequences: int, tokens: int, model: str) -> None:
    """Another sequence needs no fewer bytes, and the parts are all there is."""
    words: dict[str, Any] = {"prompt_tokens": min(tokens, 500), "output_tokens": 0}
    fewer, more = (
        serve(model, engine, num_sequences=count, **words) for count in (sequences, sequences + 1)
    )

    assert fewer.serving is not None
    assert more.serving is not None
    assert fewer.serving.required_bytes <= more.serving.required_bytes
    assert sum(component.bytes for component in more.components) == more.device_bytes


@settings(max_examples=25, deadline=None)
@given(
    stages=st.integers(1, 8), model=st.sampled_from(["llama-2-7b", "gemma-2-27b", "mixtral-8x7b"])
)
def test_stages_add_up_to_the_model(stages: int, model: str) -> None:
    """Every layer is on one stage, and every weight but a tied table once."""
    architecture = load_architecture(resolve_model(model))
    whole, split = (
        build_ranks(architecture, Layout(pipeline_parallel=degree), scheme=None, dtype=DType.BF16)
        for degree in (1, stages)
    )
    table = architecture.embedding.numel * 2 if architecture.tied and stages > 1 else 0
    total = sum(rank.weight_bytes - rank.table_bytes for rank in split)

    assert sum(rank.num_layers for rank in split) == architecture.num_hidden_layers
    assert total == pytest.approx(whole[0].weight_bytes - whole[0].table_bytes + table, abs=stages)


@pytest.mark.parametrize("engine", POOLED)
@pytest.mark.parametrize("tied", [False, True])
def test_all_numbers_of_a_pipeline_are_those_of_its_worst_stage(
    engine: Engine, *, tied: bool
) -> None:
    """The stage that holds most is the one whose bytes are told; what is required is of the stage
    that lacks most.
    """
    config = LLAMA_8B | {"tie_word_embeddings": tied}
    workload = ServeWorkload(engine=engine, num_sequences=8, prompt_tokens=512)
    found = estimate(
        architecture_from_config(config), workload, layout=Layout(pipeline_parallel=4), device=H100
    )

    worst = found.stages[found.worst_pipeline_stage]
    assert (
        worst.allocated_bytes
        == max(stage.allocated_bytes for stage in found.stages)
        == found.allocated_bytes
    )
    assert worst.steady_bytes == found.steady_bytes
    assert found.serving is not None
    assert (
        found.serving.required_bytes
        >= found.serving.kv_cache_bytes + found.instants[0].allocated_bytes
    )


@pytest.mark.parametrize("engine", POOLED)
@pytest.mark.parametrize("model", ["llama-3-8b", "deepseek-v2-lite"])
def test_as_many_sequences_as_are_told_fit(model: str, engine: Engine) -> None:
    """What is said to run at once runs at once, and one more does not: graphs are captured beside
    the budget.
    """
    words: dict[str, Any] = {"prompt_tokens": 1536, "output_tokens": 512, "max_model_len": 8192}
    alone = serve(model, engine, num_sequences=1, **words).serving
    assert alone is not None
    assert alone.max_num_sequences is not None

    most, over = (
        judge(serve(model, engine, num_sequences=alone.max_num_sequences + more, **words), H100)
        for more in (0, 1)
    )

    assert most.verdict is not Verdict.DOES_NOT_FIT
    assert over.verdict is Verdict.DOES_NOT_FIT


@pytest.mark.parametrize("engine", POOLED)
@settings(max_examples=10, deadline=None)
@given(size=st.integers(20, 2000), ranks=st.sampled_from([1, 2, 4]))
def test_intervals_of_an_engine_lie_in_one_another(engine: Engine, size: int, ranks: int) -> None:
    """What is reserved is on the device, at both ends."""
    workload = ServeWorkload(engine=engine, num_sequences=1, prompt_tokens=100, output_tokens=10)
    device = Device(name="card", capacity_bytes=size * GIB, usable_bytes=size * GIB)
    model = load_architecture(resolve_model("llama-3-8b"))

    found = estimate(model, workload, layout=Layout(tensor_parallel=ranks), device=device)

    assert found.allocated_interval.low <= found.reserved_interval.low <= found.device_interval.low
    assert (
        found.allocated_interval.high <= found.reserved_interval.high <= found.device_interval.high
    )
