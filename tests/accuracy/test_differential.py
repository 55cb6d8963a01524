"""The analytic walk beside our own trace of the real model code, where configs and options are not
the usual ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from service.estimator.estimate import estimate
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.device import Device
from service.estimator.values.dtypes import DType
from service.estimator.values.generation import Client, Sampling
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.precision import POLICIES, Precision
from service.estimator.values.workload import (
    Attention,
    Cache,
    Checkpointing,
    Lora,
    Method,
    ServeWorkload,
    TrainWorkload,
    Workload,
)
from service.jobs.contract import ModelSource, ProbeDevice, ProbeRequest, make_task
from tests.tiny_models import tiny_config
from tests.traces.measuring import measure_kept

FLOOR_BYTES = 1024
"""Scalars that are alive for a moment: a norm's square, a loss, a count of labels; no tensor of a
layer is so small.
"""
LIMIT = 1e-3
HOST = Device(name="host", capacity_bytes=2**60, usable_bytes=2**60)
LONE = Layout()
SPLIT = Layout(tensor_parallel=2)
SHARDED = Layout(data_parallel=3, sharding=Sharding.FSDP2, zero_stage=3)
KEPT = replace(SHARDED, shard_embeddings_separately=True, reshard_after_forward=False)
TRAIN = TrainWorkload(sequence_length=40, micro_batch_size=2, precision=POLICIES["bf16"])
SHORT = replace(TRAIN, sequence_length=16, micro_batch_size=1)
AUTOCAST = replace(TRAIN, precision=POLICIES["amp_bf16"])
LOOPED = replace(TRAIN, optimizer="adamw_loop")
PADDED = replace(TRAIN, padding_mask=True)
ADAPTED = replace(TRAIN, method=Method.LORA, lora=Lora(rank=4))
CAST = Precision(
    name="cast",
    param_dtype=DType.FP32,
    compute_dtype=DType.BF16,
    grad_dtype=DType.FP32,
    optimizer_dtype=DType.FP32,
)
SINGLE: Mapping[str, Any] = {"weight_dtype": DType.FP32, "kv_cache_dtype": DType.FP32}
SERVE = ServeWorkload(num_sequences=2, prompt_tokens=40, output_tokens=8, client=Client.LOOP)
GENERATE = replace(SERVE, client=Client.GENERATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """One question: a small model of a family with other fields than usual."""

    family: str
    workload: Workload
    changes: Mapping[str, Any] = field(default_factory=dict)
    layout: Layout = LONE
    apart: Mapping[str, float] = field(default_factory=dict)
    """Instants that are known to differ, and by how much of them at most."""

    def __str__(self) -> str:
        """Name the question in the output of a test."""
        return "-".join([self.family, *(f"{name}={value}" for name, value in self.changes.items())])


GRADIENTS = {"backward": 0.0025}
"""The walk says 0.2 % less of a backward that is not the peak."""
ADAPTERS_LOADED = {"load": 0.1}
"""A rank shards adapters with what they stand on; the walk counts what is loaded before they are
made.
"""
UNTIED = {"tie_word_embeddings": False}
LARGE = {"vocab_size": 4000}
"""A vocabulary beside which layers are small."""
ONE_KEY = {"num_key_value_heads": 1}
CASES = (
    # The only key and value head is expanded by a view, and no copy is made of it for the
    # memory-efficient kernel.
    Drawn(family="gemma3_text", workload=TRAIN, changes={**ONE_KEY, "sliding_window": 16}),
    Drawn(family="gemma3_text", workload=PADDED, changes=ONE_KEY),
    Drawn(
        family="mistral",
        workload=AUTOCAST,
        changes={**ONE_KEY, "sliding_window": 16},
        apart=GRADIENTS,
    ),
    # A product of one sequence reads an only head as a view; several copy what lies token after
    # token, a cast query too.
    Drawn(
        family="gemma3_text",
        workload=replace(TRAIN, micro_batch_size=1, attention=Attention.EAGER),
        changes=ONE_KEY,
    ),
    Drawn(family="mistral", workload=replace(AUTOCAST, attention=Attention.EAGER), apart=GRADIENTS),
    # A loop over tensors still names the quotient of the one before.
    Drawn(
        family="gemma3_text",
        workload=LOOPED,
        changes={"tie_word_embeddings": True, "intermediate_size": 512},
    ),
    Drawn(family="glm4", workload=replace(LOOPED, method=Method.LORA, lora=Lora(rank=4))),
    # Dropout gives each adapter a mask and an input of its own.
    Drawn(family="llama", workload=replace(ADAPTED, lora=Lora(rank=4, dropout=0.1))),
    Drawn(
        family="gemma",
        workload=replace(
            AUTOCAST,
            method=Method.LORA,
            lora=Lora(rank=4, dropout=0.1),
            activation_checkpointing=Checkpointing.FULL,
        ),
    ),
    # What tensor-parallel ranks share is stepped before what each has in full, so that one list's
    # temporaries go first.
    Drawn(family="mixtral", workload=TRAIN, changes=UNTIED, layout=SPLIT),
    Drawn(family="gemma", workload=TRAIN, layout=replace(SHARDED, tensor_parallel=2)),
    Drawn(
        family="starcoder2",
        workload=replace(LOOPED, gradient_clipping=True),
        changes=UNTIED,
        layout=SPLIT,
    ),
    # Adapters are gathered in the dtype that they are kept in, or computed in where sharding casts;
    # frozen experts go by rows.
    Drawn(family="llama", workload=ADAPTED, layout=SHARDED, apart=ADAPTERS_LOADED),
    Drawn(
        family="mixtral",
        workload=replace(ADAPTED, precision=CAST),
        layout=SHARDED,
        apart=ADAPTERS_LOADED,
    ),
    # What is gathered ahead in backward is the block before, be it larger; an embedding that is not
    # dropped stays.
    Drawn(
        family="deepseek_v2",
        workload=TRAIN,
        changes={"intermediate_size": 512, "num_experts_per_tok": 1},
        layout=SHARDED,
    ),
    Drawn(family="llama", workload=TRAIN, changes=UNTIED, layout=KEPT),
    # With few ranks the shard of the root's gradients is large, and the last parameter's gradient
    # is still there beside it.
    Drawn(
        family="gpt_neox",
        workload=replace(SHORT, precision=CAST),
        changes=LARGE,
        layout=replace(SHARDED, data_parallel=2),
    ),
    Drawn(
        family="gpt_neox",
        workload=SHORT,
        changes=LARGE,
        layout=replace(KEPT, reshard_after_forward=True),
    ),
    # A tower's layers are units of their own, which text gathers none of; a batch of one row is
    # whole on the first rank.
    Drawn(family="gemma3", workload=TRAIN, layout=SHARDED),
    Drawn(family="vit", workload=replace(TRAIN, sequence_length=17), layout=SHARDED),
    # Fields that are not those of the usual small model.
    Drawn(family="opt", workload=TRAIN, changes={"do_layer_norm_before": False}),
    Drawn(family="qwen3_moe", workload=TRAIN, changes={"num_experts": 8, "mlp_only_layers": [0]}),
    # A state that is kept from prefill on is updated in decode, and no sequence is scanned anew.
    Drawn(family="mamba2", workload=SERVE),
    # Three states are there at once while a short prompt is scanned: no position's output is as
    # large.
    Drawn(family="mamba", workload=replace(SERVE, prompt_tokens=8)),
    Drawn(family="cohere2", workload=SERVE, changes={"head_dim": 64}),
    Drawn(family="llama", workload=SERVE, changes={"num_attention_heads": 8, "vocab_size": 1003}),
    # A product of several sequences copies its sides where they do not lie head after head.
    Drawn(family="mistral", workload=replace(SERVE, attention=Attention.EAGER)),
    # A static layer is made when it is first reached: one that is turned in fp32 peaks before its
    # own cache is there.
    Drawn(family="cohere", workload=replace(SERVE, cache=Cache.STATIC, max_model_len=512)),
    # Once the window is full, a static layer is rolled in copies.
    Drawn(
        family="gemma3_text",
        workload=replace(SERVE, cache=Cache.STATIC, output_tokens=1),
        changes={"sliding_window": 16},
    ),
    # The math kernel has a causal mask of its own; a single query under a mask is packed by key and
    # value head instead.
    Drawn(family="llama", workload=replace(SERVE, **SINGLE, prompt_tokens=250)),
    Drawn(family="llama", workload=replace(SERVE, **SINGLE, cache=Cache.STATIC, max_model_len=400)),
    # An encoder reads the prompt once; each step of the decoder beside it has its own token and
    # what was encoded.
    Drawn(family="bart", workload=SERVE),
    Drawn(family="t5", workload=SERVE),
    Drawn(family="bert", workload=replace(SERVE, output_tokens=0)),
    # Latents of a static cache are expanded for all of its room; heads of one sequence are read as
    # they lie.
    Drawn(family="deepseek_v3", workload=replace(SERVE, cache=Cache.STATIC, max_model_len=400)),
    Drawn(family="bloom", workload=replace(SERVE, num_sequences=1, prompt_tokens=250)),
    Drawn(family="falcon", workload=replace(SERVE, cache=Cache.STATIC, max_model_len=400)),
    # Called by ``generate``: each sequence has positions of its own, scores live through the next
    # step, experts are copied for each row in decode; the last token is never read.
    Drawn(family="llama", workload=GENERATE),
    Drawn(family="gpt2", workload=replace(GENERATE, sampling=Sampling.SAMPLE)),
    Drawn(family="mixtral", workload=replace(GENERATE, output_tokens=2)),
    Drawn(family="falcon", workload=GENERATE),
    Drawn(
        family="gemma3_text",
        workload=replace(GENERATE, output_tokens=2),
        changes={"sliding_window": 16},
    ),
    # A state is read by the first step after it grew, and not made anew from all tokens.
    Drawn(family="mamba2", workload=GENERATE),
    Drawn(family="falcon_mamba", workload=GENERATE),
)


def traced(drawn: Drawn) -> dict[str, int]:
    """Return the bytes of every instant of a trace of all layers."""
    config = {**tiny_config(drawn.family), **drawn.changes}
    request = ProbeRequest(
        model=ModelSource(architecture={}, hf_config=config),
        task=make_task(drawn.workload),
        layout=drawn.layout,
        device=ProbeDevice.TRACE,
        full_depth=True,
        deadline_s=600.0,
    )
    return {instant.name: instant.allocated_bytes for instant in measure_kept(request).instants}


def walked(drawn: Drawn) -> dict[str, int]:
    """Return the analytic bytes of every instant."""
    model = architecture_from_config({**tiny_config(drawn.family), **drawn.changes})
    answer = estimate(model, drawn.workload, layout=drawn.layout, device=HOST)
    return {instant.name: instant.allocated_bytes for instant in answer.instants}


@pytest.mark.filterwarnings(
    "ignore:`is_gradient_checkpointing` is deprecated:FutureWarning"
)  # PEFT still asks
@pytest.mark.filterwarnings(
    "ignore:The following .*_pattern keys:RuntimeWarning"
)  # PEFT's own, for stacks of experts
@pytest.mark.parametrize("drawn", CASES, ids=str)
def test_the_walk_is_what_the_code_does(drawn: Drawn) -> None:
    """Every instant of a step is the same within a thousandth, but for those that are named."""
    said, found = walked(drawn), traced(drawn)

    for name, limit in drawn.apart.items():
        assert said.pop(name) == pytest.approx(found.pop(name), rel=limit, abs=FLOOR_BYTES)
    assert said == pytest.approx(found, rel=LIMIT, abs=FLOOR_BYTES)
