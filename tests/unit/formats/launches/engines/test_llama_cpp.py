"""Arguments of llama.cpp as questions."""

from dataclasses import replace
from typing import Any

import pytest

from service.base.errors import InvalidRequestError
from service.estimator.values.dtypes import CacheType, DType
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Attention, Engine, Quantization, ServeWorkload
from service.formats.launches.engines.llama_cpp_overrides import ALL_LAYERS, count_host_experts
from service.formats.launches.values.errors import LaunchFormatError
from tests.unit.formats.launches.asking import (
    GPU,
    ask_command,
    get_layout,
    get_workload,
    read_back,
)
from tests.unit.formats.renderings.builders import a_job

SERVE = "llama-server -m models/Llama-2-7b-Q4_K_M.gguf -c 16384 -np 4"
SET = ServeWorkload(
    num_sequences=4,
    prompt_tokens=1536,
    output_tokens=512,
    engine=Engine.LLAMA_CPP,
    max_model_len=4096,
)
RENDERED: list[tuple[str, dict[str, Any], dict[str, int]]] = [
    ("llama-2-7b", {}, {}),
    ("llama-2-7b", {"quantization": Quantization.Q4_K_M, "gpu_layers": 20}, {}),
    ("llama-2-7b", {"quantization": Quantization.INT8, "attention": Attention.EAGER}, {}),
    ("llama-2-7b", {"kv_cache_dtype": DType.FP16}, {"tensor_parallel": 2}),
    ("mixtral-8x7b", {"cpu_moe_layers": 8}, {"pipeline_parallel": 2}),
    ("llama-2-7b", {"tensor_split": (3.0, 1.0)}, {"pipeline_parallel": 2}),
    ("llama-2-7b", {"cache_type": CacheType.Q8_0, "max_num_batched_tokens": 4096}, {}),
]
READ = [
    ("-ngl 20", "workload", "gpu_layers", 20),
    ("--n-gpu-layers 99", "workload", "gpu_layers", 99),
    ("-ncmoe 10", "workload", "cpu_moe_layers", 10),
    ("-fa off", "workload", "attention", "eager"),
    ("-ctk bf16 -ctv bf16", "workload", "kv_cache_dtype", "bf16"),
    ("-n 256", "workload", "output_tokens", 256),
    ("-sm row -ts 1,1", "layout", "tensor_parallel", 2),
    ("-ts 1,1,1", "layout", "pipeline_parallel", 3),
    ("-ts 3,1", "workload", "tensor_split", [3.0, 1.0]),
    ("-ctk q8_0 -ctv q8_0", "workload", "cache_type", "q8_0"),
    ("-ub 1024", "workload", "max_num_batched_tokens", 1024),
    ("-ub 4096", "workload", "max_num_batched_tokens", 2048),
    ("-b 256", "workload", "max_num_batched_tokens", 256),
    ("-ot exps=CPU", "workload", "cpu_moe_layers", 999),
    ("-ot .ffn_.*_exps.=CPU", "workload", "cpu_moe_layers", 999),
    (r"-ot blk\.(?:[0-9]|1[0-5])\.ffn_(up|down|gate)_exps.=CPU", "workload", "cpu_moe_layers", 16),
]
READ += [
    (flags, "workload", "speculative", {"num_tokens": number, "draft": "llama-160m"})
    for flags, number in (
        ("-md d/llama-160m-Q8_0.gguf --draft-max 8", 8),
        ("--spec-type draft-simple --spec-draft-model llama-160m.gguf --spec-draft-n-max 5", 5),
        ("-hfd org/llama-160m:Q8_0", 3),
    )
]
NAMED = [
    ("-m a/Qwen2.5-7B-Instruct-Q5_K_M.gguf", "Qwen2.5-7B-Instruct", "q5_k_m"),
    ("-m llama-q8_0-00001-of-00003.gguf", "llama", "q8_0"),
    ("-hf ggml-org/gemma-3-4b-it-GGUF:Q8_0", "gemma-3-4b-it", "q8_0"),
    ("-hf ggml-org/gemma-3-4b-it-GGUF", "gemma-3-4b-it", "q4_k_m"),
    ("--model phi-4.Q6_K.gguf", "phi-4", "q6_k"),
]
IGNORED = (
    *("-ot .ffn_(up|down)_exps.=CPU", "-ctv q4_0 -ctk q8_0", "-ctv bf16 -ctk q8_0"),
    *("-ot attn=CPU", "-ot exps=CUDA0", "--mmproj p.gguf"),
    *("--spec-type draft-mtp --draft-max 3", "--spec-type draft-eagle3 -md head.gguf"),
    "-md llama-160m-F16.gguf -cd 512",
    *("-nkvo", "--swa-full", "--rpc host:50052", "--some-flag-of-tomorrow 3", "--lora a.gguf"),
)
IDLE = (
    *("--port 8080", "-t 8", "-b 2048", "--jinja", "--no-mmap", "--no-webui", "-a name"),
    *("--temp 0.7", "-cb", "--metrics", "-n -1", "-fit off"),
)
BAD = [
    ("-c many", "expected a whole number"),
    ("-c 3", "a token for each of 4 slots"),
    ("-sm column", "expected one of none, layer, row, tensor"),
    ("-ngl -5", "from 0 on"),
    ("-ts 1,x", "expected a number"),
    ("-ctk f16 -ctv bf16", "say it once, or say the same"),
]


@pytest.mark.parametrize(("model", "fields", "layout"), RENDERED)
def test_what_is_rendered_is_read_back(
    model: str, fields: dict[str, Any], layout: dict[str, int]
) -> None:
    """A rendered command asks what was evaluated; how many GPUs it has the machine says."""
    workload = replace(SET, **fields)

    question = read_back(a_job(workload, Layout(**layout), model=model, gpu=GPU), layout)  # type: ignore[arg-type]

    assert (question.workload, question.layout) == (workload, Layout(**layout))  # type: ignore[arg-type]


@pytest.mark.parametrize(("flags", "part", "field", "value"), READ)
def test_a_flag_is_a_field(flags: str, part: str, field: str, value: object) -> None:
    """Each argument that counts becomes the field that means it."""
    question = ask_command(f"{SERVE} {flags}")

    fields = get_layout(question) if part == "layout" else get_workload(question)
    assert fields[field] == value
    assert question.imported.ignored == ()


@pytest.mark.parametrize(("flags", "model", "quantization"), NAMED)
def test_a_file_is_named_for_its_model_and_format(
    flags: str, model: str, quantization: str
) -> None:
    """The format is the end of the name, or a repository's tag."""
    question = ask_command(f"llama-server {flags}")

    assert question.document["model"] == model
    assert get_workload(question)["quantization"] == quantization


@pytest.mark.parametrize(
    ("word", "larger"),
    [
        ("IQ2_XS", "q4_k_m"),
        ("Q4_K_S", "q4_k_m"),
        ("UD-Q4_K_XL", "q5_k_m"),
        ("Q4_1", "q5_k_m"),
        ("Q5_K_S", "q5_k_m"),
        ("Q5_1", "q6_k"),
        ("Q6_K_L", "q8_0"),
    ],
)
def test_a_format_without_a_term_is_asked_for(word: str, larger: str) -> None:
    """No other format is taken in silence, and none of fewer bits."""
    question = ask_command(f"llama-server -m llama-{word}.gguf")

    choices = {one.field: one.choices for one in question.questions}["workload.quantization"]
    assert get_workload(question)["quantization"] == choices[0] == larger
    assert question.document["model"] == "llama"


@pytest.mark.parametrize("flags", IGNORED)
def test_what_has_no_word_is_named(flags: str) -> None:
    """What may count and has no field is ignored by its name."""
    assert ask_command(f"{SERVE} {flags}").imported.ignored


@pytest.mark.parametrize("flags", IDLE)
def test_what_decides_nothing_is_named(flags: str) -> None:
    """Servers' own settings have no effect on memory or time."""
    imported = ask_command(f"{SERVE} {flags}").imported

    assert imported.without_effect == (flags.partition(" ")[0],)
    assert imported.ignored == ()


@pytest.mark.parametrize(("flags", "expected"), BAD)
def test_a_bad_value_is_refused(flags: str, expected: str) -> None:
    """The refusal says where, and what would be right."""
    with pytest.raises(LaunchFormatError) as caught:
        ask_command(f"{SERVE} {flags}")

    assert expected in caught.value.message
    assert caught.value.field == "command"


def test_slots_share_the_context() -> None:
    """Four slots are the default of a server, and one sequence that of the other program."""
    server = get_workload(ask_command("llama-server -m a-Q8_0.gguf -c 16384"))
    slots = get_workload(ask_command("llama-server -m a-Q8_0.gguf -c 16384 -np 2"))
    program = get_workload(ask_command("llama-cli -m a-Q8_0.gguf -c 16384"))

    assert (server["num_sequences"], server["max_model_len"]) == (4, 4096)
    assert (slots["num_sequences"], slots["max_model_len"]) == (2, 8192)
    assert (program["num_sequences"], program["max_model_len"]) == (1, 16384)


def test_the_slots_are_the_launches() -> None:
    """Another number of sequences would have another context: it is refused."""
    with pytest.raises(InvalidRequestError, match="auto is four slots"):
        ask_command("llama-server -m a-Q8_0.gguf -c 16384", workload={"num_sequences": 8})


def test_the_prompt_and_the_context_are_asked_for() -> None:
    """Without a context the model's own is taken, of which the launch says nothing."""
    question = ask_command("llama-server -m a-Q8_0.gguf", gpu=GPU)

    assert question.missing == ("workload.prompt_tokens", "workload.max_model_len")


def test_a_known_models_context_is_its_own() -> None:
    """The context was the prompt's and the answer's, where llama.cpp takes the model's."""
    question = ask_command("llama-server -m llama-2-7b-Q8_0.gguf -np 2", gpu=GPU)

    assert get_workload(question)["max_model_len"] == 2048
    assert "workload.max_model_len" not in {one.field for one in question.questions}
    assert any("less than the model's context" in text for text in question.imported.warnings)


def test_a_model_that_nobody_knows_has_an_open_context() -> None:
    """What it takes is asked for then."""
    question = ask_command("llama-server -m unheard-of-Q8_0.gguf", gpu=GPU)

    assert "workload.max_model_len" in {one.field for one in question.questions}


@pytest.mark.parametrize(
    ("text", "layers"),
    [
        ("exps=CPU", ALL_LAYERS),
        (r"blk\..*\.ffn_.*_exps.*=CPU", ALL_LAYERS),
        (r"blk\.[0-9]+\.ffn_(?:up|gate|down)_exps\.weight=CPU", ALL_LAYERS),
        (r"blk\.(1[0-9]|2[0-3])\.ffn_.*_exps\.=CPU", 14),
        (r"blk\.0\.ffn_.*_exps.=CPU,blk\.1\.ffn_.*_exps.=CPU", 2),
        (r"blk\.[0-9][0-9][0-9][0-9]\.ffn_.*_exps.=CPU", None),
        (r"blk\.\d+\.ffn_.*_exps=CUDA1", None),
        ("exps=CPU,attn=CPU", None),
        ("=CPU", None),
        ("exps", None),
        ("(" * 4000 + "exps=CPU", None),
    ],
)
def test_an_override_of_experts_is_counted_in_layers(text: str, layers: int | None) -> None:
    """Its pattern is not run, whatever it is; parts of experts have no word."""
    assert count_host_experts(text) == layers


@pytest.mark.parametrize(
    ("repository", "model", "quantization"),
    [
        ("unsloth/Qwen3-30B-A3B-GGUF:Q8_0", "unsloth/Qwen3-30B-A3B", "q8_0"),
        ("ggml-org/gpt-oss-20b-GGUF", "gpt-oss-20b", "mxfp4"),
        ("Qwen/Qwen3-8B-GGUF", "Qwen/Qwen3-8B", "q4_k_m"),
        ("somebody/nothing-known-GGUF", "somebody/nothing-known-GGUF", "q4_k_m"),
    ],
)
def test_a_repository_of_files_is_of_its_model(
    repository: str, model: str, quantization: str
) -> None:
    """The catalogue has the model that the files are made of; gpt-oss has one format."""
    question = ask_command(f"llama-server -hf {repository} -c 4096", gpu=GPU)

    assert question.document["model"] == model
    assert get_workload(question)["quantization"] == quantization
