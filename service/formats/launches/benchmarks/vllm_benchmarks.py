"""vLLM's own benchmarks, which start an engine and say its load.

vLLM 0.33.0, ``vllm/benchmarks/latency.py`` and ``throughput.py``.
"""

from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.settings import Settings, make_default

LATENCY, THROUGHPUT = "latency", "throughput"
_COMMAND = "bench"
_SOURCE = "vLLM 0.33.0, vllm/benchmarks/latency.py"
WITHOUT_EFFECT = (
    *("num_iters*", "num_warmups", "profile", "output_json", "disable_detokenize", "backend"),
    *("dataset_*", "hf_*", "async_engine", "prequeue_requests", "no_oversample", "num_prompts"),
)
"""Options of the benchmarks that decide no instant of the engine."""


def find_benchmark(handed_in: HandedIn) -> str | None:
    """Return the benchmark that a command starts an engine for."""
    command = handed_in.command
    if command is None or command.program != "vllm" or command.arguments[:1] != (_COMMAND,):
        return None
    kind = next(iter(command.arguments[1:2]), None)
    return kind if kind in {LATENCY, THROUGHPUT} else None


def put_load(settings: Settings, draft: Draft, kind: str) -> None:
    """Set the load that a benchmark gives its engine.

    That of ``throughput`` has as many requests as the engine takes, which stay asked for.
    """
    lengths = {"input_len": "workload.prompt_tokens", "output_len": "workload.output_tokens"}
    defaults = {"input_len": 32, "output_len": 128} if kind == LATENCY else {}
    for name, field in lengths.items():
        setting = settings.take(name, f"random_{name}")
        if setting is None and name in defaults:
            setting = make_default(name, defaults[name], _SOURCE)
        if setting is not None:
            draft.put(field, setting.as_int(minimum=1), setting)
    answers = settings.take("n")
    if kind == LATENCY:
        batch = settings.take("batch_size") or make_default("batch_size", 8, _SOURCE)
        count = 1 if answers is None else answers.as_int(minimum=1)
        sources = (batch,) if answers is None else (batch, answers)
        draft.put("workload.num_sequences", count * batch.as_int(minimum=1), *sources)
    elif answers is not None:
        draft.note(answers, "answers to each prompt, of which as many run as the engine takes")
    draft.ignore_switch(settings.take("use_beam_search"), "beams have no term on an engine")
