"""llama.cpp with a file's own tensors, and what others do with a GGUF file."""

from dataclasses import replace
from typing import Any

import pytest

from service.catalog.gpus import resolve_gpu
from service.estimator.backends.llama_cpp.gguf import file_bytes
from service.estimator.estimate import estimate
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import (
    architecture_from_config,
    architecture_from_spec,
)
from service.estimator.model.quantization.loading import as_loaded
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import EstimatorError
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.workload import (
    Engine,
    Framework,
    Lora,
    Method,
    Quantization,
    ServeWorkload,
    TrainWorkload,
    Workload,
)
from service.formats.checkpoints.gguf_model import build_gguf_architecture
from tests.tiny_models import tiny_config
from tests.unit.formats.checkpoints.files import read_model

DEVICE = resolve_gpu("L4").to_device()
SERVED = ServeWorkload(num_sequences=2, prompt_tokens=64, output_tokens=64, engine=Engine.LLAMA_CPP)


def model(name: str = "mixtral") -> Architecture:
    """Return the model of a file."""
    return build_gguf_architecture(read_model(name).describe())


def ask(workload: Workload, name: str = "mixtral", layout: Layout | None = None) -> Estimate:
    """Return the answer for the model of a file."""
    loaded = as_loaded(model(name), workload)
    return estimate(loaded, workload, layout=layout or Layout(), device=DEVICE)


def weights(answer: Estimate) -> int:
    """Return the bytes of weights on the fullest GPU."""
    return sum(part.bytes for part in answer.components if part.name == "weights")


def test_weights_are_those_of_the_file() -> None:
    """Everything but the token table is on the GPU, to the byte."""
    file = read_model("mixtral")
    table = next(t.bytes for t in file.tensors if t.name == "token_embd.weight")

    answer = ask(SERVED)

    assert weights(answer) == file.total_bytes - table
    assert answer.host_bytes_per_node == table
    formula = next(part.formula for part in answer.components if part.name == "weights")
    assert "MXFP4" in formula


@pytest.mark.parametrize(("layers", "kept"), [(0, 0), (1, 0), (2, 1), (3, 2), (4, 3)])
def test_layers_on_the_host_leave_with_their_own_bytes(layers: int, kept: int) -> None:
    """-ngl counts the output as a layer; each other takes what its tensors have in the file."""
    file = model().gguf
    assert file is not None
    sizes = [layer.experts + layer.rest for layer in file.by_layer]

    answer = ask(replace(SERVED, gpu_layers=layers))

    head = file.head + file.outside if layers else 0
    assert weights(answer) == sum(sizes[3 - kept :] if kept else []) + head


def test_experts_on_the_host_leave_with_their_own_bytes() -> None:
    """--n-cpu-moe takes the tensors whose names say so."""
    file = model().gguf
    assert file is not None

    moved = weights(ask(SERVED)) - weights(ask(replace(SERVED, cpu_moe_layers=2)))

    assert moved == file.by_layer[0].experts + file.by_layer[1].experts


def test_files_of_one_model_and_other_types_are_told_apart() -> None:
    """One process answers both: a cache by structure alone would mix them up."""
    plain = architecture_from_config(tiny_config("llama") | {"model_type": "llama"})
    shared = model("llama")

    sizes = {file_bytes(one, Quantization.NONE, DType.BF16).layers for one in (plain, shared)}

    assert len(sizes) == 2
    assert weights(ask(SERVED, "llama")) != weights(
        estimate(plain, SERVED, layout=Layout(), device=DEVICE)
    )


def test_what_stands_outside_of_layers_is_as_large_as_in_a_file() -> None:
    """The last norm is fp32, in files of any mixture."""
    plain = architecture_from_config(tiny_config("llama") | {"model_type": "llama"})
    file = model("llama").gguf
    assert file is not None

    assert file_bytes(plain, Quantization.NONE, DType.BF16).outside == file.outside


def test_a_stored_file_is_read_back() -> None:
    """The specification has the file's bytes, and the fingerprint tells files apart."""
    kept = model()

    again = architecture_from_spec(kept.describe())

    assert again == kept
    assert again.fingerprint() != replace(again, gguf=None).fingerprint()
    assert again.fingerprint(depth=False) == replace(again, gguf=None).fingerprint(depth=False)


@pytest.mark.parametrize("described", [{}, [], {"table": 1}, {"by_layer": 1, "types": {}}])
def test_bytes_that_are_none_are_refused(described: object) -> None:
    """A specification by hand cannot bring half of a file."""
    with pytest.raises(EstimatorError, match="bytes of 3 layers"):
        architecture_from_spec(model().describe() | {"gguf": described})


def test_transformers_unpacks_a_file_and_says_so() -> None:
    """Its weights count in the workload's format, as those of its config.json do."""
    workload = replace(SERVED, engine=Engine.TRANSFORMERS)
    plain = architecture_from_config(tiny_config("llama") | {"model_type": "llama"})

    answer = ask(workload, "llama")

    assert weights(answer) == weights(estimate(plain, workload, layout=Layout(), device=DEVICE))
    assert any("unpacks a GGUF file" in line for line in answer.warnings)


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        (replace(SERVED, engine=Engine.VLLM), "a GGUF file on vllm"),
        (replace(SERVED, engine=Engine.SGLANG), "a GGUF file on sglang"),
        (replace(SERVED, engine=Engine.TENSORRT_LLM), "a GGUF file on tensorrt_llm"),
        (replace(SERVED, quantization=Quantization.Q4_K_M), "leave quantization out"),
        (
            replace(SERVED, engine=Engine.TRANSFORMERS, quantization=Quantization.NF4),
            "leave quantization out",
        ),
        (TrainWorkload(sequence_length=64, method=Method.QLORA, lora=Lora()), 'say "lora"'),
        (
            TrainWorkload(sequence_length=64, framework=Framework.TORCHTITAN),
            "training a GGUF file in framework torchtitan",
        ),
    ],
)
def test_what_reads_no_gguf_says_so(workload: Any, words: str) -> None:  # noqa: ANN401 - either kind of workload
    """Each refusal names what would be right."""
    with pytest.raises(EstimatorError, match=words):
        ask(workload, "llama")
