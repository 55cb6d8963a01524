"""Each remedy is true, asked as a question of its own in its words."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec import convert, to_builtins

from service.contract.schemas.fit import FitRequest
from service.contract.schemas.layouts import LayoutRequest
from service.contract.to_answer.fits import build_fit_answer
from service.contract.to_question.fits import read_fit
from service.contract.to_question.models import read_inline
from service.estimator.cache import PlanCache
from service.usecases.questions.remedies import answer_fit

PLANS = PlanCache()
Document = dict[str, Any]
LLAMA = {
    "model_type": "llama",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "num_hidden_layers": 2,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
}
MIXTRAL = {
    "model_type": "mixtral",
    "hidden_size": 2048,
    "intermediate_size": 7168,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "num_hidden_layers": 2,
    "num_local_experts": 8,
    "vocab_size": 32000,
}
GPT_OSS = {
    "model_type": "gpt_oss",
    "hidden_size": 2880,
    "intermediate_size": 2880,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "num_hidden_layers": 2,
    "num_local_experts": 32,
    "vocab_size": 201088,
    "quantization_config": {"quant_method": "mxfp4"},
}
QWEN_VL = {
    "model_type": "qwen2_5_vl",
    "hidden_size": 2048,
    "intermediate_size": 11008,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "vocab_size": 151936,
    "max_position_embeddings": 128000,
    "vision_config": {"depth": 2, "hidden_size": 1280, "out_hidden_size": 2048},
}
HUGE = {**LLAMA, "num_hidden_layers": 64, "hidden_size": 65536, "intermediate_size": 262144}
TRAIN = {"task": "train", "sequence_length": 1024, "micro_batch_size": 16}
SERVE = {"task": "serve", "num_sequences": 64, "prompt_tokens": 1024, "output_tokens": 64}
QUESTIONS: Mapping[str, Document] = {
    "full": {"gpu": "T4", "workload": {**TRAIN, "precision": "amp_fp16"}},
    "in the format of the GPU": {"gpu": "T4", "workload": TRAIN},
    "adapters": {"gpu": {"memory_bytes": "3Gi"}, "workload": {**TRAIN, "method": "lora"}},
    "experts": {
        "model": MIXTRAL,
        "gpu": "RTX-2080-Ti",
        "workload": {**TRAIN, "method": "lora", "precision": "fp16_autocast"},
    },
    "pairs": {"gpu": "T4", "workload": {**TRAIN, "trainer": "dpo", "micro_batch_size": 4}},
    "sharded": {
        "gpu": "T4",
        "workload": {**TRAIN, "micro_batch_size": 32},
        "layout": {"data_parallel": 2, "zero_stage": 3, "sharding": "fsdp2"},
    },
    "megatron": {
        "gpu": "L4",
        "workload": {**TRAIN, "framework": "megatron", "micro_batch_size": 32},
    },
    "vllm": {"gpu": {"memory_bytes": "4Gi"}, "workload": {**SERVE, "engine": "vllm"}},
    "vllm, with a vision tower": {
        "model": QWEN_VL,
        "gpu": {"memory_bytes": "6Gi"},
        "workload": {**SERVE, "engine": "vllm", "max_model_len": 32768},
    },
    "vllm, weights on the host": {
        "model": {**LLAMA, "num_hidden_layers": 64},
        "gpu": {"memory_bytes": "8Gi"},
        "workload": {**SERVE, "engine": "vllm", "num_sequences": 1, "max_model_len": 2048},
    },
    "sglang": {"gpu": {"memory_bytes": "4Gi"}, "workload": {**SERVE, "engine": "sglang"}},
    "generate": {"gpu": {"memory_bytes": "2Gi"}, "workload": SERVE},
    "llama.cpp": {"gpu": {"memory_bytes": "2Gi"}, "workload": {**SERVE, "engine": "llama_cpp"}},
    "unpacked to be served": {
        "model": GPT_OSS,
        "gpu": {"memory_bytes": "4Gi"},
        "workload": {**SERVE, "num_sequences": 1},
    },
    "unpacked to be served in fp32": {
        "model": GPT_OSS,
        "gpu": {"memory_bytes": "8Gi"},
        "workload": {
            **SERVE,
            "num_sequences": 1,
            **dict.fromkeys(("weight_dtype", "kv_cache_dtype"), "fp32"),
        },
    },
    "nothing helps": {
        "model": HUGE,
        "gpu": "T4",
        "workload": {**TRAIN, "sequence_length": 131072, "micro_batch_size": 1},
    },
}
"""Questions that do not fit, of models of few layers: their width is that of real ones."""


def _ask(question: Document, **more: object) -> Document:
    document = {**question, "model": {"hf_config": question.get("model", LLAMA)}, **more}
    request = convert(document, FitRequest)
    asked = read_fit(request, read_inline(request.model))  # type: ignore[arg-type]  # brought along
    report = answer_fit(asked, plans=PLANS)
    answer: Document = to_builtins(build_fit_answer(report, assumptions=asked.assumptions))
    return answer


def _apply(question: Document, change: Mapping[str, Any]) -> Document:
    """Return the question with a change made by its words."""
    names = set(LayoutRequest.__struct_fields__)
    layout = {name: value for name, value in change.items() if name in names}
    workload = {
        name: value for name, value in change.items() if name not in names and name != "gpu"
    }
    return {
        **question,
        "gpu": change.get("gpu", question["gpu"]),
        "workload": {**question["workload"], **workload},
        "layout": {**question.get("layout", {}), **layout},
    }


@pytest.mark.parametrize("name", QUESTIONS)
def test_what_is_promised_holds_when_it_is_asked(name: str) -> None:
    """The list ends in something that fits, or says that nothing known does; each change can be
    asked for, has the verdict and saves the bytes that it says, in the time that it says.
    """
    question = QUESTIONS[name]
    before = _ask(question)
    assert before["verdict"] != "fits"

    fitting = [each for each in before["remedies"] if each["verdict"] == "fits"]
    conclusion = before["remedy_search"]["conclusion"]
    assert bool(fitting) != conclusion.startswith("nothing known makes it fit")
    for remedy in before["remedies"]:
        after = _ask(_apply(question, remedy["change"]), remedies=False)
        assert after["verdict"] == remedy["verdict"], remedy["change"]
        assert after["num_gpus"] == remedy["num_gpus"]
        assert remedy["saves_bytes"] == max(_get_needed(before) - _get_needed(after), 0)
        speed = after["throughput"] or {"step_time_s": None, "tokens_per_second": None}
        assert remedy["step_time_s"] == speed["step_time_s"]
        assert remedy["tokens_per_second"] == speed["tokens_per_second"]


def _get_needed(answer: Document) -> int:
    serving = answer["serving"]
    if serving is None or serving["kv_pool_bytes"] is None:
        return int(answer["per_gpu"]["device_bytes"])
    return int(serving["required_bytes"])
