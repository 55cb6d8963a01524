"""Fits: every model of the catalogue, chance, what others published, and what must be refused."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.answers.questions import Json, Known, Question, post, rng_of, words
from tests.answers.workloads import serving, spread, training

PATH = "/v1/fit"
_LARGE = ("A100-SXM4-80GB", "H100-SXM5-80GB", "H200", "B200-SXM6-180GB", "MI300X-192GB", "L40S")
_MIXTURES = ("mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v3")
_TRAIN: Json = {"task": "train", "sequence_length": 64}
_SERVE: Json = {"task": "serve", "num_sequences": 1, "prompt_tokens": 64}
_BASE: Json = {"model": "gpt2", "gpu": "H200", "workload": _TRAIN}
_LAYOUT = "layout"


def body_of(known: Known, chance: random.Random, asked: tuple[Json, Json], model: str = "") -> Json:
    """Return a body of POST /v1/fit for a workload and a layout."""
    workload, layout = asked
    gpus = known.gpus if chance.random() < 0.4 else _LARGE
    body: Json = {
        "model": model or chance.choice(known.models),
        "gpu": chance.choice(gpus),
        "workload": workload,
    }
    if chance.random() < 0.06:
        body["gpu"] = {"memory_bytes": chance.choice(["16Gi", "80Gi", 25_000_000_000])}
    if layout:
        body[_LAYOUT] = layout
    if chance.random() < 0.5:
        # Remedies take most of the time of an answer: half of the answers have them.
        body["remedies"] = False
    if chance.random() < 0.1:
        body["confidence"] = chance.choice([0.5, 0.9, 0.99])
    return body


def chance_bodies(known: Known, name: str, count: int) -> list[Json]:
    """Return bodies by chance: alone, spread, served."""
    chance = rng_of(name)
    makers = (training, spread, spread, serving)
    return [body_of(known, chance, chance.choice(makers)(chance)) for _ in range(count)]


def fits(known: Known, data: Path) -> Iterator[Question]:
    """Yield every question of POST /v1/fit that rests on no measurement."""
    bodies = [*_every_model(known), *chance_bodies(known, "fits", 520), *_mixtures(known)]
    bodies += [*_engines(known), *_published(data), *_inline()]
    for body in [*bodies, *_refused()]:
        yield post(PATH, PATH, body)
    yield Question(group=PATH, method="POST", path=PATH, body='{"model":')
    yield Question(group=PATH, method="POST", path=PATH, body="[]")
    yield Question(group=PATH, method="POST", path=PATH, body="")
    yield Question(group=PATH, method="POST", path=PATH, body='{"a": "' + "x" * 1_000_001 + '"}')
    headers = {"content-type": "text/plain"}
    text = json.dumps(_BASE)
    yield Question(group=PATH, method="POST", path=PATH, body=text, headers=headers)
    gzip = {"accept-encoding": "gzip"}
    yield Question(group=PATH, method="POST", path=PATH, body=text, headers=gzip)


def _every_model(known: Known) -> Iterator[Json]:
    chance = rng_of("every model")
    for number, model in enumerate(known.models):
        train = {"task": "train", "sequence_length": 512, "micro_batch_size": 1 + number % 3}
        gpu = _LARGE[number % len(_LARGE)]
        yield {"model": model, "gpu": gpu, "workload": train, "remedies": number % 3 == 0}
        yield body_of(known, chance, serving(chance), model)
    yield from ({**_BASE, "model": alias} for alias in known.aliases[::8])
    yield from ({**_BASE, "gpu": gpu} for gpu in known.gpus)


def _mixtures(known: Known) -> Iterator[Json]:
    chance = rng_of("mixtures")
    for model in [name for name in _MIXTURES if name in known.models]:
        for engine in ("vllm", "sglang", "tensorrt_llm"):
            workload, _ = serving(chance, engine)
            for layout in (
                {"tensor_parallel": 8, "expert_parallel": 8},
                {"tensor_parallel": 4, "expert_parallel": 2},
                {"tensor_parallel": 2, "data_parallel": 4, "expert_parallel": 8},
            ):
                yield {"model": model, "gpu": "H200", "workload": workload, _LAYOUT: layout}
        for _ in range(8):
            workload, layout = spread(chance)
            yield {"model": model, "gpu": "H200", "workload": workload, _LAYOUT: layout}


def _engines(known: Known) -> Iterator[Json]:
    chance = rng_of("engines")
    for engine in ("transformers", "vllm", "sglang", "tensorrt_llm", "llama_cpp"):
        for _ in range(30):
            model = chance.choice(["llama-3.1-8b", "llama-2-7b", "qwen2.5-7b", "gemma-2-9b"])
            name = model if model in known.models else "llama-2-7b"
            yield body_of(known, chance, serving(chance, engine), name)


def _published(data: Path) -> Iterator[Json]:
    """Yield every second question that others published, where this checkout has them."""
    for path in sorted(data.rglob("published/*.jsonl")):
        for number, line in enumerate(path.read_text().splitlines()[::2]):
            row = json.loads(line)
            asked = ("model", "workload", "gpu", _LAYOUT)
            body = {name: row[name] for name in asked if row.get(name)}
            yield body | {"remedies": number % 2 == 0}


def _inline() -> Iterator[Json]:
    tiny: Json = {"model_type": "llama", "vocab_size": 32000, "hidden_size": 256}
    tiny |= {"intermediate_size": 688, "num_hidden_layers": 4, "num_attention_heads": 4}
    decoder = {"family": "gpt2", "vocab_size": 51200, "hidden_size": 1024, "num_hidden_layers": 8}
    decoder |= {"num_attention_heads": 16, "max_position_embeddings": 2048}
    models: list[Any] = [{"hf_config": tiny}, {"architecture": decoder}]
    models += [{"num_parameters": number} for number in (1_000_000, 7_000_000_000, 10**12)]
    kinds = "gpt2 bert t5 mamba mixtral qwen2 gemma3 phi3 falcon opt bloom vit clip whisper nobody"
    models += [{"hf_config": {"model_type": kind}} for kind in words(kinds)]
    models += [{}, {"hf_config": {}}, {"hf_config": tiny, "num_parameters": 5}]
    models += [{"hf_config": tiny | {"num_attention_heads": 3}}, {"architecture": {}}, 7, "13B"]
    for model in models:
        yield {**_BASE, "model": model}
        yield {**_BASE, "model": model, "workload": _SERVE, "remedies": False}


def _refused() -> Iterator[Json]:
    """Yield what breaks a rule: of the body, of a field, between fields."""
    bodies: list[Json] = [{}, {**_BASE, "modle": 1}, {**_BASE, "gpu": "A100"}]
    bodies += [{**_BASE, "model": name} for name in ("gpt-9", "", "llama", "meta/none", None)]
    bodies += [{**_BASE, "gpu": gpu} for gpu in ("", "H1000", 5, {}, {"memory_bytes": "80GB"})]
    bodies += [{**_BASE, "confidence": value} for value in (0, 1, 1.5, "x", None)]
    wrong: dict[str, tuple[object, ...]] = {
        "sequence_length": (0, -1, "64", 64.0, 10**12, None),
        "micro_batch_size": (0, 10**9, True),
        "sequence_lenght": (64,),
        "precision": ("bf17", {"param_dtype": "x"}, {}, 7),
        "optimizer": ("adamv", "", 3),
        "method": ("lora_", "qlora "),
        "lora": ({"rank": 0}, {"rank": 8}, {"rnk": 8}, {"target_modules": ["x_proj"]}),
        "activation_checkpointing": ("all", {"selective": 0}, {"selective": 99}, 4),
        "attention": ("xformers",),
        "loss": ("none", 0),
        "offload": ({"optimizer": "disk"}, {"activations": "cpu"}, {"parameters": "cpu"}),
        "framework": ("jax", "megatron", "torchtitan"),
        "framework_version": ("x", "1.0", "9.9.9"),
        "num_images": (1, 0),
        "audio_frames": (1,),
        "decoder_length": (64,),
        "frozen": (["x"], "mlp", []),
        "task": ("infer", None, "serve"),
        "peft": ({"type": "ia3"}, {"type": ""}),
    }
    for name, values in wrong.items():
        bodies += [{**_BASE, "workload": {**_TRAIN, name: value}} for value in values]
    served: dict[str, tuple[object, ...]] = {
        "num_sequences": (0, "1"),
        "engine": ("tgi", 1),
        "engine_version": ("x", "0.0.1", "99.0"),
        "quantization": ("int3", "q4_0", "mxfp4"),
        "gpu_memory_fraction": (0, 1.2, 0.5),
        "num_beams": (0, 3),
        "max_model_len": (8, 0),
        "cache": ("paged", "ring"),
        "speculative": ({"num_tokens": 0}, {"num_tokens": 2, "draft": "none"}, {}),
        "kv_cache_dtype": ("fp4", "fp32"),
    }
    for name, values in served.items():
        for engine in ("vllm", "transformers"):
            workload = {**_SERVE, "engine": engine}
            bodies += [{**_BASE, "workload": {**workload, name: value}} for value in values]
    layouts: tuple[Json, ...] = (
        {"data_parallel": 0},
        {"data_parallel": 3, "shard_size": 2},
        {"tensor_parallel": 5},
        {"tensor_parallel": 7, "sharding": "fsdp2"},
        {"zero_stage": 4},
        {"zero_stage": 3},
        {"zero_stage": 3, "sharding": "ddp", "data_parallel": 4},
        {"pipeline_parallel": 2},
        {"expert_parallel": 2},
        {"sharding": "zero"},
        {"virtual_pipeline_stages": 2},
        {"sequence_parallel": True},
        {"host_memory_bytes": "1TB"},
        {"data_paralel": 2},
    )
    bodies += [{**_BASE, _LAYOUT: layout} for layout in layouts]
    bodies += [{**_BASE, "workload": _SERVE, _LAYOUT: layout} for layout in layouts]
    yield from bodies
