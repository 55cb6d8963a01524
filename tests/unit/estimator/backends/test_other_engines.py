"""SGLang, TensorRT-LLM and llama.cpp: what each takes of a GPU, and from what it takes its
fraction.
"""

from typing import Any

import pytest

from service.catalog.gpus import resolve_gpu
from service.estimator.backends.llama_cpp.answer import cache_bytes, graph_bytes
from service.estimator.backends.llama_cpp.gguf import file_bytes
from service.estimator.estimate import estimate
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.units import GIB, MIB
from service.estimator.values.workload import Attention, Engine, Quantization, ServeWorkload
from service.planner.fit.verdict import Verdict, judge
from tests.unit.estimator.backends.test_vllm import GEMMA_2_27B, LLAMA_8B

LLAMA_2_7B = LLAMA_8B | {
    "vocab_size": 32000,
    "num_key_value_heads": 32,
    "intermediate_size": 11008,
    "max_position_embeddings": 4096,
}
H100 = resolve_gpu("H100-SXM5-80GB").to_device()


def serve(engine: Engine, config: dict[str, Any] = LLAMA_8B, **words: Any) -> Estimate:  # noqa: ANN401 - words differ in type
    """Ask what a server on one H100 needs."""
    asked: dict[str, Any] = {"num_sequences": 4, "prompt_tokens": 1000, "output_tokens": 24}
    layout = words.pop("layout", Layout())
    workload = ServeWorkload(engine=engine, **asked | words)
    return estimate(architecture_from_config(config), workload, layout=layout, device=H100)


def test_sglang_pool_of_its_log() -> None:
    """Llama-3.1-8B on 80 GB: 54.04 GB of cache for 442,750 tokens (SGLang pull request 4760)."""
    serving = serve(Engine.SGLANG, engine_version="0.4.4").serving

    assert serving is not None
    assert serving.kv_pool_tokens == pytest.approx(442_750, rel=0.01)


def test_sglang_leaves_activations_beside_its_fraction() -> None:
    """Since 0.5 the fraction is computed from what a chunk and the graphs are thought to need."""
    old, new = (
        serve(Engine.SGLANG, engine_version="0.4.6"),
        serve(Engine.SGLANG, engine_version="0.5.5"),
    )

    assert old.serving is not None
    assert new.serving is not None
    assert new.serving.budget_bytes < old.serving.budget_bytes


def test_tensorrt_llm_takes_its_fraction_of_what_is_free() -> None:
    """Half of what is left is half of the pool, where a fraction of the total would leave none."""
    whole, half = (
        serve(Engine.TENSORRT_LLM, gpu_memory_fraction=one).serving for one in (1.0, 0.5)
    )

    assert whole is not None
    assert half is not None
    assert half.kv_pool_bytes == pytest.approx((whole.kv_pool_bytes or 0) / 2, rel=0.001)


def test_tensorrt_llm_takes_no_more_than_there_is() -> None:
    """Where libraries take more than is thought, less is free, and the pool is a share of that: a
    small GPU is not too full.
    """
    workload = ServeWorkload(
        engine=Engine.TENSORRT_LLM, num_sequences=32, prompt_tokens=1024, output_tokens=256
    )
    l4, split = resolve_gpu("L4").to_device(), Layout(tensor_parallel=2)
    found = estimate(architecture_from_config(LLAMA_8B), workload, layout=split, device=l4)

    assert judge(found, l4).verdict is Verdict.FITS
    assert found.device_bytes < found.device_interval.high == l4.usable_bytes


@pytest.mark.parametrize(
    ("engine", "config"),
    [
        (Engine.TENSORRT_LLM, LLAMA_8B),
        *(
            (engine, config)
            for engine in (Engine.VLLM, Engine.SGLANG, Engine.LLAMA_CPP)
            for config in (LLAMA_8B, GEMMA_2_27B)
        ),
    ],
)
def test_components_sum_to_the_device_bytes(engine: Engine, config: dict[str, Any]) -> None:
    """Each engine's parts are all that NVML shows."""
    answer = serve(engine, config)

    assert sum(component.bytes for component in answer.components) == answer.device_bytes
    assert answer.allocated_bytes <= answer.reserved_bytes <= answer.device_bytes
    assert answer.device_interval.low <= answer.device_bytes <= answer.device_interval.high


@pytest.mark.parametrize(
    ("config", "words", "refusal"),
    [
        (GEMMA_2_27B, {}, "PyTorch backend has no model of gemma2"),
        (LLAMA_2_7B, {"max_model_len": 8192}, "TensorRT-LLM lowers to 4096"),
    ],
)
def test_tensorrt_llm_is_asked_for_what_it_has(
    config: dict[str, Any], words: dict[str, Any], refusal: str
) -> None:
    """A family that its registry lacks, and a length beyond what it infers, are refused."""
    with pytest.raises(InvalidInputError, match=refusal):
        serve(Engine.TENSORRT_LLM, config, **words)


@pytest.mark.parametrize("engine", [Engine.VLLM, Engine.SGLANG, Engine.TENSORRT_LLM])
def test_more_ranks_hold_more_tokens(engine: Engine) -> None:
    """Two ranks share weights and heads, so that their pools hold more than twice the tokens of
    one.
    """
    one, two = serve(engine).serving, serve(engine, layout=Layout(tensor_parallel=2)).serving

    assert one is not None
    assert two is not None
    assert (two.kv_pool_tokens or 0) > 2 * (one.kv_pool_tokens or 0)


@pytest.mark.parametrize(
    ("config", "quantization", "published", "metadata"),
    [
        (LLAMA_8B, Quantization.Q4_K_M, 4_920_733_952, 7_850_000),
        (LLAMA_8B, Quantization.Q8_0, 8_540_771_072, 7_850_000),
        (LLAMA_8B, Quantization.Q4_0, 4_661_211_424, 7_850_000),
        (LLAMA_2_7B, Quantization.Q4_K_M, 4_081_004_224, 750_000),
    ],
)
def test_gguf_files_are_as_large_as_published(
    config: dict[str, Any], quantization: Quantization, published: int, metadata: int
) -> None:
    """Tensors are all of a published file but its tokenizer and names."""
    found = file_bytes(architecture_from_config(config), quantization, DType.BF16)
    tensors = found.table + found.layers + found.head

    assert 0 < published - tensors < metadata


@pytest.mark.parametrize(("config", "mebibytes"), [(LLAMA_8B, 258.5), (LLAMA_2_7B, 70.5)])
def test_the_graph_of_llama_cpp_is_that_of_its_logs(
    config: dict[str, Any], mebibytes: float
) -> None:
    """With FlashAttention, llama.cpp prints compute buffers of 258.50 and 70.50 MiB for these
    models.
    """
    workload = ServeWorkload(num_sequences=1, prompt_tokens=8192)

    assert graph_bytes(architecture_from_config(config), workload) / MIB == mebibytes


def test_scores_without_flash_attention_grow_with_the_cells() -> None:
    """Eager attention keeps the fp32 scores of 32 heads, and a mask, of a micro batch with all
    cells.
    """
    model = architecture_from_config(LLAMA_8B)
    short, long = (
        graph_bytes(
            model, ServeWorkload(num_sequences=1, prompt_tokens=tokens, attention=Attention.EAGER)
        )
        for tokens in (8192, 16384)
    )

    assert long - short == 512 * 8192 * (32 + 1) * 4


def test_windows_have_fewer_cells() -> None:
    """Layers with a window keep window x sequences + 512 cells; half of gemma-2's layers have one
    of 4,096.
    """
    model = architecture_from_config(GEMMA_2_27B)
    asked = ServeWorkload(num_sequences=1, prompt_tokens=8192)
    per_layer = 2 * 16 * 128 * 2

    assert cache_bytes(model, asked) == 23 * per_layer * (8192 + 4096 + 512)


def test_llama_cpp_keeps_the_token_table_on_the_host() -> None:
    """The first layer's lookup runs on the CPU; the head is on the GPU, in another format."""
    answer = serve(Engine.LLAMA_CPP, quantization=Quantization.Q4_K_M)

    assert answer.host_bytes_per_node == 128256 * 4096 // 256 * 144
    assert answer.steady_bytes < 7 * GIB
    assert judge(answer, H100).verdict is Verdict.FITS


@pytest.mark.parametrize(
    ("engine", "words", "error", "field"),
    [
        (
            Engine.LLAMA_CPP,
            {"quantization": Quantization.NF4},
            NotModelledError,
            "workload.quantization",
        ),
        (
            Engine.LLAMA_CPP,
            {"gpu_memory_fraction": 0.5},
            NotModelledError,
            "workload.gpu_memory_fraction",
        ),
        (
            Engine.LLAMA_CPP,
            {"kv_cache_dtype": DType.FP8},
            NotModelledError,
            "workload.kv_cache_dtype",
        ),
        (
            Engine.LLAMA_CPP,
            {"layout": Layout(tensor_parallel=2, pipeline_parallel=2)},
            InvalidInputError,
            "layout.tensor_parallel",
        ),
        (
            Engine.VLLM,
            {"quantization": Quantization.Q4_K_M},
            NotModelledError,
            "workload.quantization",
        ),
        (
            Engine.LLAMA_CPP,
            {"max_num_sequences": 8},
            NotModelledError,
            "workload.max_num_sequences",
        ),
        (Engine.SGLANG, {"engine_version": "0.1.0"}, NotModelledError, "workload.engine_version"),
        (Engine.TENSORRT_LLM, {"max_model_len": 16}, InvalidInputError, "workload.max_model_len"),
        (
            Engine.TRANSFORMERS,
            {"quantization": Quantization.Q8_0},
            NotModelledError,
            "workload.quantization",
        ),
    ],
)
def test_words_of_other_engines_are_refused(
    engine: Engine, words: dict[str, Any], error: type[Exception], field: str
) -> None:
    """What an engine has no such thing for is named."""
    with pytest.raises(error) as refusal:
        serve(engine, **words)

    assert getattr(refusal.value, "field", None) == field


def test_a_quantised_checkpoint_is_no_gguf_file() -> None:
    """A config's own quantisation says nothing about a GGUF file."""
    described = {"quant_method": "gptq", "bits": 4, "group_size": 128}

    with pytest.raises(InvalidInputError):
        serve(Engine.LLAMA_CPP, LLAMA_8B | {"quantization_config": described})


@pytest.mark.parametrize(
    ("engine", "eager", "told"),
    [
        (Engine.TENSORRT_LLM, False, True),
        (Engine.TENSORRT_LLM, True, False),
        (Engine.SGLANG, False, False),
    ],
)
def test_graphs_that_are_not_counted_are_told(
    engine: Engine,
    eager: bool,  # noqa: FBT001 - a row of the table
    told: bool,  # noqa: FBT001 - a row of the table
) -> None:
    """SGLang's pool is a component."""
    warnings = serve(engine, enforce_eager=eager).warnings

    assert any("CUDA graphs has no term" in warning for warning in warnings) is told
