"""LitGPT's steps against traces of its own code (``python -m tests.accuracy.litgpt CLONE``)."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from service.estimator.estimate import estimate
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.errors import EstimatorError
from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.result import Estimate
from service.estimator.values.workload import Framework, Lora, Method, TrainWorkload
from tests.accuracy.cases import TRUTH
from tests.builders import a_device

ROWS = [json.loads(line) for line in (TRUTH / "litgpt.jsonl").read_text().splitlines()]
_INDEX_BYTES = 8


def _decoder(kind: str, sizes: str, **fields: object) -> dict[str, object]:
    """Return a config from ``vocabulary hidden heads kv_heads inner``."""
    names = (
        *("vocab_size", "hidden_size", "num_attention_heads", "num_key_value_heads"),
        "intermediate_size",
    )
    numbers = zip(names, (int(size) for size in sizes.split()), strict=True)
    return {"model_type": kind, "head_dim": None, **dict(numbers), **fields}


CONFIGS: Mapping[str, Mapping[str, object]] = {
    "pythia-70m": _decoder("gpt_neox", "50304 512 8 8 2048"),
    "stablelm-base-alpha-3b": _decoder("gpt_neox", "50688 4096 32 32 16384"),
    "tiny-llama-1.1b": _decoder("llama", "32000 2048 32 4 5632"),
    "Llama-2-7b-hf": _decoder("llama", "32000 4096 32 32 11008"),
    "phi-1_5": _decoder("phi", "51200 2048 32 32 8192", partial_rotary_factor=0.5),
    "falcon-7b": _decoder("falcon", "65024 4544 71 1 18176"),
    "Gemma-2b": _decoder("gemma", "256000 2048 8 1 16384", head_dim=256),
    "stablelm-3b-4e1t": _decoder("stablelm", "50304 2560 32 32 6912"),
    "Qwen2.5-0.5B": _decoder("qwen2", "151936 896 14 2 4864", tie_word_embeddings=True),
}
"""The models of the traces, as their repositories publish them."""


_NF4 = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}


def _get_method(row: Mapping[str, Any]) -> Method:
    if "adapter" in row:
        return Method.PEFT
    if "targets" not in row:
        return Method.FULL
    return Method.QLORA if row["packed"] else Method.LORA


def ask(row: Mapping[str, Any], **changes: Any) -> Estimate:  # noqa: ANN401 - each its own type
    """Return the answer to a row's question."""
    batch, length = row["shape"]
    config = {name: value for name, value in CONFIGS[row["name"]].items() if value is not None}
    adapts, own = "targets" in row, row.get("adapter")
    if own is not None and row["packed"]:
        config["quantization_config"] = _NF4
    lora = (
        Lora(rank=row["rank"], targets=tuple(row["targets"]), dropout=row["dropout"])
        if adapts
        else None
    )
    given: dict[str, Any] = {
        "sequence_length": length,
        "micro_batch_size": batch,
        "framework": Framework.LITGPT,
        "framework_version": row["version"],
        "method": _get_method(row),
        "peft": own,
        "double_quantization": not row["packed"],
        "precision": POLICIES["bf16"],
        "lora": lora,
    }
    return estimate(
        architecture_from_config({**config, "num_hidden_layers": row["layers"]}),
        TrainWorkload(**(given | changes)),
        layout=Layout(),
        device=a_device(),
    )


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['name']}-{row['revision']}")
def test_a_step_holds_what_litgpts_code_holds(row: Mapping[str, Any]) -> None:
    """To the byte between steps; in a step to what follows from scalars, labels and indices.

    Labels without their first token are a copy for several sequences, and an adapter's places in
    the fused projection are a tensor that fake ones do not count before release 0.5. A packed head
    is unpacked beside all logits but those of its last chunk, whose length is not known: up to 128
    tokens' are counted too much, on the way back as well where logits are scaled.
    """
    answer = ask(row)
    phases = {phase.name: phase.allocated_bytes for phase in answer.phases}
    traced, config = row["bytes"], CONFIGS[row["name"]]
    batch, length = row["shape"]
    places = row["layers"] * 3 * int(str(config["hidden_size"])) * _INDEX_BYTES
    doubt = 3 * batch * length * _INDEX_BYTES + (places if "targets" in row else 0)
    last_chunk = batch * 128 * int(str(config["vocab_size"])) * 2 if row["packed"] else 0
    assert answer.steady_bytes == pytest.approx(traced["steady"], abs=8)
    assert phases["optimizer_step"] == pytest.approx(traced["optimizer_step"], abs=8)
    assert -doubt <= phases["forward_pass"] - traced["forward"] <= doubt + last_chunk
    scaled_chunk = last_chunk if row.get("adapter") == "adapter_v2" else 0
    assert -doubt <= phases["backward_pass"] - traced["backward"] <= doubt + scaled_chunk


def test_data_of_its_own_lengths_has_no_batch_as_long_before_the_longest() -> None:
    """The logits of the batch before are those of shorter sequences then, and not counted."""
    row = next(row for row in ROWS if row["name"] == "Gemma-2b" and row["shape"][0] > 1)
    (_, length) = row["shape"]
    equal, varied = ask(row), ask(row, sequence_lengths=((length, 1),))
    bytes_ = [[part.allocated_bytes for part in answer.phases] for answer in (equal, varied)]
    forward, backward, step = (before - after for before, after in zip(*bytes_, strict=True))
    assert (forward > 0, backward, step) == (True, 0, 0)


def test_older_bitsandbytes_keeps_the_inputs_of_packed_layers() -> None:
    """They are attributes of the graph's nodes, which the logits keep alive."""
    row = next(row for row in ROWS if row["packed"] and row["version"] == "0.4.13")
    older, newer = ask(row), ask(row, framework_version="0.5.5")
    kept = older.steady_bytes - newer.steady_bytes
    tokens, hidden, inner = 300, 2048, 8192
    # A norm that both sublayers read, attention's output and the feed-forward's inner features; of
    # the first layer, whose norm has no gradient, attention's output alone; and the head's input.
    assert kept == tokens * 2 * (2 * (2 * hidden + inner) + hidden + hidden)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"micro_batch_size": 2}, "adapters on micro batches of 2"),
        ({"peft": "lora"}, "PEFT's lora in litgpt"),
    ],
)
def test_what_its_adapters_have_no_term_for_is_refused(changes: dict[str, Any], words: str) -> None:
    """SDPA has no fused kernel for one prompt under several sequences, and PEFT runs nowhere."""
    row = next(row for row in ROWS if row.get("adapter") == "adapter")
    with pytest.raises(EstimatorError, match=words):
        ask(row, **changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"framework_version": "0.2"}, "a release since 0.3.0"),
        ({"precision": POLICIES["bf16_mixed"]}, "precision bf16_mixed in litgpt"),
        ({"lora": Lora(targets=("q_proj",))}, "it has no q_proj"),
        ({"optimizer": "muon"}, "optimizer muon in litgpt"),
    ],
)
def test_what_a_script_cannot_be_told_is_refused(changes: dict[str, Any], words: str) -> None:
    """Words of other frameworks are refused with LitGPT's."""
    row = next(row for row in ROWS if row["name"] == "tiny-llama-1.1b" and "targets" in row)
    with pytest.raises(EstimatorError, match=words):
        ask(row, **changes)
