"""Adapters on linear layers outside of blocks, against traces of transformers and PEFT.

The bytes are those of a step with LoRA of rank 8 on all linear layers of small models, as fake
tensors counted them (torch 2.13, transformers 5.23, peft 0.21).
"""

from collections.abc import Mapping

import pytest

from service.estimator.memory.timeline import build_train_timeline
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import Lora, Method, TrainWorkload
from tests.tiny_models import tiny_config

_LORA = TrainWorkload(
    sequence_length=64,
    micro_batch_size=2,
    precision=POLICIES["bf16"],
    keeps_logits=True,
    fp32_outputs=False,
    method=Method.LORA,
    lora=Lora(rank=8),
)
_RANK = Layout(data_parallel=8, sharding=Sharding.FSDP2, zero_stage=3)
_SCALARS = 8


@pytest.mark.parametrize(
    ("model_type", "changes", "layout", "backward", "step"),
    [
        ("opt", {"word_embed_proj_dim": 64}, Layout(), 5921104, 2009344),
        ("opt", {"word_embed_proj_dim": 64}, _RANK, 5114672, 251360),
        ("bert", {}, _RANK, 5298838, 353402),
    ],
)
def test_layers_outside_of_blocks_have_adapters(
    model_type: str, changes: Mapping[str, int], layout: Layout, backward: int, step: int
) -> None:
    """OPT's projections next to a narrow embedding, and BERT's layer before its head.

    Of a sharded model they are a part of the root unit: gathered and reduced with it.
    """
    model = architecture_from_config({**tiny_config(model_type), **changes})
    phases = dict(build_train_timeline(model, _LORA, layout).phases)

    assert phases["backward_pass"] == pytest.approx(backward, abs=_SCALARS)
    assert phases["optimizer_step"] == step
