"""Work of an encoder and a decoder, beside what the real models run."""

from typing import Any

import pytest

from service.catalog.gpus import resolve_gpu
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.speed.throughput import WorkCache, make_step_timer
from service.estimator.speed.work import FLOPS_PER_PRODUCT, ForwardWork
from service.estimator.tape.ledger import Section
from tests.builders import a_training

_A100 = resolve_gpu("A100-SXM4-80GB").to_device()
_BATCH, _SOURCE = 2, 64
_T5: dict[str, Any] = {
    "model_type": "t5",
    "d_model": 64,
    "d_kv": 16,
    "d_ff": 128,
    "num_layers": 3,
    "num_decoder_layers": 2,
    "num_heads": 4,
    "vocab_size": 512,
}
_BART: dict[str, Any] = {
    "model_type": "bart",
    "d_model": 64,
    "encoder_layers": 3,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
    "vocab_size": 512,
}


def _count(config: dict[str, Any], target: int | None, **changes: Any) -> ForwardWork:  # noqa: ANN401 - fields of a step
    workload = a_training(
        precision="amp_bf16",
        micro_batch_size=_BATCH,
        sequence_length=_SOURCE,
        decoder_length=target,
        **changes,
    )
    return make_step_timer(architecture_from_config(config), workload, _A100, WorkCache()).work


@pytest.mark.parametrize(
    ("config", "target", "products", "scores"),
    [
        (_T5, 32, 44_040_192, 9_437_184),
        (_T5, None, 58_720_256, 14_680_064),
        (_BART, 32, 44_040_192, 9_437_184),
    ],
)
def test_products_are_those_of_the_real_model(
    config: dict[str, Any], target: int | None, products: int, scores: int
) -> None:
    """FLOPs that torch counts in transformers' own: each position of its own stack, and what reads
    the encoder as often as it has positions. Of the decoder's own scores half are hidden.
    """
    work = _count(config, target)

    counted = work.count_block_products(_BATCH, _SOURCE, fills_tiles=True)
    counted += work.count_head_products(_BATCH, _SOURCE)
    assert FLOPS_PER_PRODUCT * counted == products
    own = config.get("num_decoder_layers", 2) * (target or _SOURCE) ** 2 * 2 * 64
    hidden = FLOPS_PER_PRODUCT * _BATCH * own // 2
    assert work.attention_flops(_BATCH, _SOURCE) == scores - hidden


def test_kernels_of_a_pair_of_layers_are_those_of_the_real_model() -> None:
    """What a dispatch mode sees more of in four layers of each stack than in two, views left out
    (transformers 5.23, torch 2.13, autocast over fp32 weights).
    """
    few, many = (
        _count(_T5 | {"num_layers": layers, "num_decoder_layers": layers}, 32).sections
        for layers in (2, 4)
    )

    for section, kernels, products in ((Section.FORWARD, 111, 16), (Section.BACKWARD, 173, 32)):
        assert (many[section].kernels - few[section].kernels) / 2 == pytest.approx(kernels, rel=0.1)
        assert (many[section].products - few[section].products) / 2 == products
        assert (many[section].attentions - few[section].attentions) / 2 == 3
