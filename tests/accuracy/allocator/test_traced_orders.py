"""Steps whose requests come in the order of the model's own code: both reserve the same bytes.

``python -m tests.accuracy.allocator.traced MODEL --precision ... --attention ...`` traces them:
transformers 5.23 under torch 2.13, 2 x 1,024 tokens, three layers.
"""

import pytest

from service.estimator.values.precision import POLICIES
from service.estimator.values.units import MIB
from service.estimator.values.workload import Allocator, Attention
from tests.accuracy.allocator.replayed import log_step, replay_steps
from tests.accuracy.search.questions import TRAIN, Question


@pytest.mark.parametrize(
    ("model", "precision", "attention", "default", "expandable"),
    [
        ("bloom-560m", "amp_bf16", "sdpa", 13476, 11782),  # gelu product by product
        ("codegen-350m", "amp_bf16", "sdpa", 4658, 4306),  # masked before scaled
        ("command-r-v01", "amp_bf16", "sdpa", 93988, 90824),  # rotated in fp32
        ("gemma-2-9b", "amp_bf16", "sdpa", 35364, 34026),  # SDPA has no cap on scores
        ("gpt-j-6b", "bf16", "sdpa", 10254, 9904),  # both sides rotated before either is joined
        ("gpt-j-6b", "amp_bf16", "sdpa", 21112, 19826),  # casts that products copy
        ("gpt-oss-20b-bf16", "amp_bf16", "sdpa", 76794, 74604),  # heads repeated before casts
        ("llama-3.2-1b", "bf16_autocast", "eager", 8504, 8102),  # a mask as wide as the weights
        ("llama-4-scout-text", "bf16", "sdpa", 93030, 88406),  # norms cast back at once
        ("opt-1.3b", "amp_bf16", "sdpa", 5834, 5384),  # what attention read goes before dropout
        ("opt-1.3b", "bf16", "eager", 5024, 4662),  # a mask before the positions
        ("phi-2", "amp_bf16", "sdpa", 10852, 10064),  # slices' gradients lie head after head
        ("phi-3-mini-4k", "bf16", "sdpa", 6086, 5262),  # a slice of all
        ("pythia-1b", "amp_bf16", "sdpa", 7570, 6944),  # autocast's concatenation
        ("starcoder2-3b", "bf16", "sdpa", 5618, 4552),  # embeddings named beside their dropout
        ("starcoder2-3b", "amp_bf16", "eager", 11342, 9268),
    ],
)
def test_the_order_is_that_of_the_models_code(
    model: str, precision: str, attention: str, default: int, expandable: int
) -> None:
    """To the MiB, by either allocator."""
    options = {
        "precision": POLICIES[precision],
        "attention": Attention(attention),
        "sequence_length": 1024,
    }
    question = Question(model=model, base=TRAIN, layers=3, options=options)

    peaks = replay_steps(question, log_step(question))

    assert {kind: peaks[kind].reserved_bytes // MIB for kind in Allocator} == {
        Allocator.DEFAULT: default,
        Allocator.EXPANDABLE_SEGMENTS: expandable,
    }
