"""Requests to measure small models, and their answers."""

from collections.abc import Mapping
from dataclasses import replace

from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import Lora, Method, ServeWorkload, TrainWorkload, Workload
from service.jobs.contract import ModelSource, ProbeDevice, ProbeRequest, ProbeResult, make_task
from service.jobs.readings import InstantReading
from worker.probes.measure import measure

LLAMA: Mapping[str, object] = {
    "model_type": "llama",
    "vocab_size": 1000,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
    "hidden_act": "silu",
}
GPT2: Mapping[str, object] = {
    "model_type": "gpt2",
    "vocab_size": 1000,
    "n_embd": 128,
    "n_layer": 3,
    "n_head": 4,
    "n_positions": 512,
    "activation_function": "gelu_new",
}
TRAIN = TrainWorkload(sequence_length=64, micro_batch_size=2, precision=POLICIES["bf16"])
LORA = replace(TRAIN, method=Method.LORA, lora=Lora(rank=8))
SERVE = ServeWorkload(num_sequences=2, prompt_tokens=64, output_tokens=8)


def request(
    workload: Workload = TRAIN, config: Mapping[str, object] | None = LLAMA, **changes: object
) -> ProbeRequest:
    """Return a request to measure a small model."""
    named: dict[str, object] = {
        "layout": Layout(),
        "device": ProbeDevice.CPU,
        "deadline_s": 600.0,
    } | changes
    source = ModelSource(architecture={}, hf_config=None if config is None else dict(config))
    return ProbeRequest(model=source, task=make_task(workload), **named)  # type: ignore[arg-type]  # fields by name


def measured(
    workload: Workload = TRAIN, config: Mapping[str, object] = LLAMA, **changes: object
) -> ProbeResult:
    """Return what a probe finds."""
    return measure(request(workload, config, **changes), lambda _line: None)


def by_name(instants: tuple[InstantReading, ...]) -> dict[str, int]:
    """Return allocated bytes by instant."""
    return {instant.name: instant.allocated_bytes for instant in instants}
