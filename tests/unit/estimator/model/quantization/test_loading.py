"""What becomes of a checkpoint in mxfp4: packed where it is served by engines, unpacked where it is
trained.
"""

from typing import Any

import pytest

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, resolve_model
from service.estimator.estimate import estimate
from service.estimator.model.quantization.loading import as_loaded
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.workload import (
    Engine,
    Lora,
    Method,
    Quantization,
    ServeWorkload,
    TrainWorkload,
    Workload,
)

H100 = resolve_gpu("H100-SXM5-80GB").to_device()
PACKED, PLAIN = 13_761_264_768, 41_829_514_368
"""``total_size`` of openai/gpt-oss-20b and two bytes for each of its 20,914,757,184 parameters."""


def ask(workload: Workload, model: str = "openai/gpt-oss-20b") -> Estimate:
    """Ask what gpt-oss needs on an H100."""
    return estimate(load_architecture(resolve_model(model)), workload, layout=Layout(), device=H100)


def weights(answer: Estimate) -> int:
    """Return the bytes of the weights."""
    return sum(part.bytes for part in answer.components if part.name == "weights")


def serving(engine: Engine, **words: Any) -> ServeWorkload:  # noqa: ANN401 - words differ
    """Return a few short requests to an engine."""
    return ServeWorkload(
        engine=engine, num_sequences=2, prompt_tokens=500, output_tokens=12, **words
    )


@pytest.mark.parametrize(
    ("engine", "padding"),
    [(Engine.VLLM, 936_345_600), (Engine.SGLANG, 0), (Engine.TENSORRT_LLM, 0)],
)
def test_engines_serve_experts_as_they_were_published(engine: Engine, padding: int) -> None:
    """A rotary table in fp32 comes on top, and vLLM pads experts to whole tiles: 13.72 GiB in its
    log on an A100.
    """
    table = 131_072 * 64 * 4

    answer = ask(serving(engine))

    assert weights(answer) == pytest.approx(PACKED + table + padding, rel=1e-6)
    assert not any("mxfp4" in line for line in answer.warnings)


def test_the_large_one_fits_the_gpu_it_was_made_for() -> None:
    """openai/gpt-oss-120b: on a single GPU of 80 GB (its model card); a log of vLLM on an H100 says
    65.9651 GiB.
    """
    answer = ask(serving(Engine.VLLM, max_model_len=8192), "openai/gpt-oss-120b")

    assert weights(answer) == pytest.approx(65.9651 * 2**30, rel=0.0005)
    assert answer.device_bytes < H100.usable_bytes


def test_transformers_unpacks_unless_it_has_the_kernels() -> None:
    """``Mxfp4HfQuantizer.validate_environment``: without triton and kernels the model becomes bf16;
    the answer says so.
    """
    plain, kernels = (
        ask(serving(Engine.TRANSFORMERS)),
        ask(serving(Engine.TRANSFORMERS, quantization=Quantization.MXFP4)),
    )

    assert weights(plain) == pytest.approx(PLAIN, abs=1024)
    assert any("kernels" in line for line in plain.warnings)
    assert weights(kernels) == pytest.approx(PACKED, abs=1024)
    assert not any("kernels" in line for line in kernels.warnings)


@pytest.mark.parametrize("method", [Method.FULL, Method.LORA])
def test_training_is_that_of_the_unpacked_model(method: Method) -> None:
    """``Mxfp4HfQuantizer.is_trainable`` is false: training starts with ``dequantize=True``."""
    workload = TrainWorkload(
        sequence_length=64, method=method, lora=None if method is Method.FULL else Lora(rank=8)
    )

    packed, plain = ask(workload), ask(workload, "gpt-oss-20b-bf16")

    assert packed.device_bytes == plain.device_bytes
    assert [line for line in packed.warnings if line not in plain.warnings] == [
        line for line in packed.warnings if "mxfp4" in line
    ]
    assert len(packed.warnings) == len(plain.warnings) + 1


def test_nf4_is_not_made_of_mxfp4() -> None:
    """``qlora`` quantises what is in 16 bits."""
    with pytest.raises(InvalidInputError, match="mxfp4"):
        ask(TrainWorkload(sequence_length=64, method=Method.QLORA, lora=Lora(rank=8)))


def test_files_keep_the_experts_of_the_checkpoint() -> None:
    """``GptOssModel.dequant_model`` of ``convert_hf_to_gguf.py``: experts are copied, the rest is
    F16.
    """
    plain, asked = (
        ask(serving(Engine.LLAMA_CPP)),
        ask(serving(Engine.LLAMA_CPP, quantization=Quantization.MXFP4)),
    )

    assert weights(asked) < weights(plain) < PACKED


def test_what_was_unpacked_for_one_workload_is_packed_for_another() -> None:
    """A change of the workload starts at the checkpoint: the engine has what it would load, and
    what its config refuses stays refused.
    """
    checkpoint = load_architecture(resolve_model("openai/gpt-oss-20b"))
    unpacked = as_loaded(checkpoint, serving(Engine.TRANSFORMERS))

    assert unpacked.quantization is None
    assert as_loaded(unpacked, serving(Engine.TRANSFORMERS)) is unpacked
    assert as_loaded(unpacked, serving(Engine.VLLM)).quantization == checkpoint.quantization
    for workload in (
        serving(Engine.TRANSFORMERS, quantization=Quantization.NF4),
        TrainWorkload(sequence_length=64, method=Method.QLORA, lora=Lora(rank=8)),
    ):
        with pytest.raises(InvalidInputError, match="mxfp4"):
            estimate(unpacked, workload, layout=Layout(), device=H100)


@pytest.mark.parametrize("name", ["deepseek-v3", "llama-3-8b"])
def test_other_formats_are_loaded_as_they_are(name: str) -> None:
    """Nothing else is unpacked."""
    model = load_architecture(resolve_model(name))

    assert as_loaded(model, TrainWorkload(sequence_length=64)) is model
    assert as_loaded(model, serving(Engine.TRANSFORMERS)) is model


@pytest.mark.parametrize("engine", [Engine.VLLM, Engine.SGLANG])
def test_engines_pack_experts_in_four_bits(engine: Engine) -> None:
    """``BitsAndBytesMoEMethod``: 30.5 billion parameters, 4.127 bits each but for a table and a
    head of 311 million.
    """
    answer = ask(serving(engine, quantization=Quantization.NF4), "qwen3-30b-a3b")

    assert weights(answer) == pytest.approx(
        (30.532e9 - 2 * 0.311e9) * 4.127 / 8 + 2 * 0.622e9, rel=0.01
    )


def test_releases_before_five_packed_experts() -> None:
    """They were linear layers then; since they are stacked, they stay in 16 bits, and the answer
    says why.
    """
    old, new = (
        ask(
            serving(Engine.TRANSFORMERS, quantization=Quantization.NF4, engine_version=version),
            "mixtral-8x7b",
        )
        for version in ("4.46.0", None)
    )
    trained = ask(
        TrainWorkload(sequence_length=64, method=Method.QLORA, lora=Lora(rank=8)), "mixtral-8x7b"
    )

    assert weights(old) == pytest.approx(
        (46.70e9 - 2 * 0.131e9) * 4.127 / 8 + 2 * 0.262e9, rel=0.01
    )
    assert weights(new) > 90e9
    assert ["experts" in " ".join(answer.warnings) for answer in (old, new, trained)] == [
        False,
        True,
        True,
    ]
