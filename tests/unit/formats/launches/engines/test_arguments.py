"""Every argument of an engine's release, by its name.

The lists hold the fields of the wheels' own sources, ``switch`` after those of a truth value: vLLM
0.33.0, ``EngineArgs`` and ``FrontendArgs``; SGLang 0.5.23, ``srt/arg_groups/fields``.
"""

from pathlib import Path

import pytest

from service.formats.launches.engines import sglang_keys, vllm_keys
from service.formats.launches.sources.argv import Grammar, read_argv
from tests.unit.formats.launches.asking import LOAD, ask, ask_command

_VALUES = {
    "model": "a/b",
    "model_path": "a/b",
    "dtype": "bfloat16",
    "quantization": "fp8",
    "kv_cache_dtype": "fp8_e4m3",
    "mamba_ssm_cache_dtype": "float32",
    "mamba_ssm_dtype": "float32",
    "moe_a2a_backend": "deepep",
    "speculative_algorithm": "NGRAM",
    "speculative_num_draft_tokens": 2,
    "spec_method": "ngram",
    "limit_mm_per_prompt": {"image": 2},
}
_UNSAID = frozenset({"config", "model_tag", "speculative_config"})


def list_arguments(engine: str) -> dict[str, bool]:
    """Return the arguments of an engine, and which are switches."""
    text = (Path(__file__).parent / f"{engine}_arguments.txt").read_text(encoding="utf-8")
    return {line.split()[0]: line.endswith(" switch") for line in text.splitlines()}


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_every_argument_is_accounted_for(engine: str) -> None:
    """What is neither read nor without effect is ignored with its reason."""
    arguments = {
        name: _VALUES.get(name, True if is_switch else "1")
        for name, is_switch in list_arguments(engine).items()
        if name not in _UNSAID
    }

    imported = ask(launcher=engine, arguments=arguments).imported

    told = " ".join(imported.warnings)
    assert [name for name in imported.ignored if f" {name} is ignored: " not in told] == []
    keys = [one.key for one in imported.read] + [*imported.ignored, *imported.without_effect]
    named = {*keys, *(key.partition(".")[0] for key in keys)}
    assert arguments.keys() - named == set()


@pytest.mark.parametrize(
    ("engine", "grammar"),
    [
        ("vllm", Grammar(flags=vllm_keys.FLAGS, positionals=("model",))),
        ("sglang", Grammar(flags=sglang_keys.FLAGS, positionals=("model",))),
    ],
)
def test_switches_take_no_word(engine: str, grammar: Grammar) -> None:
    """The word after a switch, or after its denial, belongs to no option."""
    switches = [name for name, is_switch in list_arguments(engine).items() if is_switch]

    for name in switches:
        for spelled, value in ((f"--{name.replace('_', '-')}", True), (f"--no-{name}", False)):
            settings = read_argv([spelled, "a/b"], grammar, where="command")
            assert {key: setting.value for key, setting in settings.list_left()} == {
                name: value,
                "model": "a/b",
            }


def test_a_denied_switch_before_the_model() -> None:
    """A switch that is denied leaves the model where it is."""
    question = ask_command("vllm serve --no-enable-prefix-caching a/b")

    assert question.document["model"] == "a/b"
    assert question.imported.without_effect == ("--no-enable-prefix-caching",)


@pytest.mark.parametrize("start", [["bash", "-c"], ["docker", "run", "image", "sh", "-ec"]])
def test_words_of_a_list_hold_a_shells_text(start: list[str]) -> None:
    """The text of a shell is read, however its words came."""
    text = "cd /srv && N=2; exec vllm serve a/b --tensor-parallel-size $N"

    question = ask(command=[*start, text])

    assert question.document["model"] == "a/b"
    assert question.document["layout"] == {"tensor_parallel": 2}


def test_a_model_that_nobody_knows_is_asked_for_alone() -> None:
    """Its config says the format of its weights too; meanwhile that is the likeliest."""
    question = ask_command("vllm serve a/Nobody-8B-FP8", gpu="H100-SXM5-80GB", workload=LOAD)

    fields = {entry.field: entry.is_assumed for entry in question.questions}
    assert fields == {"model": True, "workload.weight_dtype": True}
    assert question.missing == ()


@pytest.mark.parametrize(
    ("words", "dtype", "ignored"),
    [
        ("--mamba-cache-dtype float32", "fp32", ()),
        ("--mamba-cache-dtype auto", None, ()),
        ("--mamba-cache-dtype float16", None, ("--mamba-cache-dtype",)),
        (
            "--mamba-cache-dtype float32 --mamba-ssm-cache-dtype float16",
            "fp16",
            ("--mamba-cache-dtype",),
        ),
    ],
)
def test_all_states_have_one_format_unless_it_is_said(
    words: str, dtype: str | None, ignored: tuple[str, ...]
) -> None:
    """Fewer bits than the release has by default are named, and its own are counted."""
    question = ask_command(f"vllm serve a/b {words}")

    assert question.document["workload"].get("state_dtype") == dtype  # type: ignore[attr-defined]
    assert question.imported.ignored == ignored
