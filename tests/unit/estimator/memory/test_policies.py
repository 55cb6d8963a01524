"""Updates and scores of a policy, held against TRL's own code on a small llama.

The bytes are sums of live storages under fake tensors (torch 2.13, transformers 5.23, TRL 1.16's
``_compute_loss`` and ``_get_per_token_logps_and_entropies`` of GRPO with its Triton kernels left
out, which allocate nothing).
"""

from typing import Any

import pytest

from service.estimator.memory.timeline import build_train_timeline
from service.estimator.memory.training_pass import build_training_pass
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.passes.scoring import record_scoring
from service.estimator.tape import sizes
from service.estimator.tape.ledger import find_highest_point
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.generation import Rollout, RolloutEngine
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.losses import Loss, Reference, Trainer
from service.estimator.values.workload import Checkpointing, Lora, Method, TrainWorkload
from tests.builders import a_training
from tests.tiny_shapes import WIDE_LLAMA

_SCALARS = 20
"""Counts, sums and advantages of one number each, which the estimator does not count."""
_IDS = 8 * 2 * 512
"""Joined ids, or their mask, which a trainer has no name for after its loss."""
_LORA = {"method": Method.LORA, "lora": Lora(rank=8)}


def _grpo(**changes: Any) -> TrainWorkload:  # noqa: ANN401 - each its own type
    given: dict[str, Any] = {"micro_batch_size": 2, "sequence_length": 512}
    given |= {"optimizer": "adamw_fused", "loss": Loss.CHUNKED_NLL, "completion_length": 384}
    return a_training(**(given | {"trainer": Trainer.GRPO} | changes))


@pytest.mark.parametrize(
    ("changes", "forward", "backward", "unnamed"),
    [
        ({"precision": "bf16"}, 157330126, 354945750, 0),
        ({"precision": "amp_bf16"}, 258230478, 412492944, 0),
        ({"precision": "bf16", "completion_length": 64}, 115023566, 311676630, 0),
        ({"precision": "bf16", **_LORA}, 173695182, 174301398, _IDS),
        ({"precision": "amp_bf16", **_LORA}, 252158414, 268624342, _IDS),
        ({"precision": "bf16", "padding_mask": True}, 162048694, 359664318, _IDS),
        (
            {"precision": "amp_bf16", "activation_checkpointing": Checkpointing.FULL},
            219183238,
            412492944,
            0,
        ),
    ],
)
def test_an_update_of_grpo_is_that_of_trl(
    changes: dict[str, Any], forward: int, backward: int, unnamed: int
) -> None:
    """Only completions are scored, and their old log-probabilities came with the batch."""
    model = architecture_from_config(WIDE_LLAMA)
    timeline = build_train_timeline(model, _grpo(**changes), Layout())

    # The traced run has made no optimizer states yet.
    states = timeline.states.optimizer_states
    phases = {name: bytes_ - states for name, bytes_ in timeline.phases}
    assert 0 <= forward - phases["forward_pass"] <= _SCALARS
    assert -unnamed <= backward - phases["backward_pass"] <= _SCALARS


def test_an_update_over_fsdp2_is_that_of_trl() -> None:
    """The head is in the root unit, which is gathered while the head is read by its weight.

    Four ranks, of which the traced one has made no optimizer states yet.
    """
    layout = Layout(data_parallel=4, zero_stage=3, sharding=Sharding.FSDP2)
    timeline = build_train_timeline(
        architecture_from_config(WIDE_LLAMA), _grpo(precision="bf16"), layout
    )

    states = timeline.states.optimizer_states
    phases = {name: bytes_ - states for name, bytes_ in timeline.phases}
    assert 0 <= 171933262 - phases["forward_pass"] <= _SCALARS
    assert 0 <= 369548886 - phases["backward_pass"] <= _SCALARS


@pytest.mark.parametrize(
    ("changes", "traced"),
    [
        ({"precision": "bf16"}, 121351814),
        ({"precision": "amp_bf16"}, 213798022),
        ({"precision": "bf16", **_LORA}, 121795718),
        ({"precision": "bf16", "completion_length": 64, "micro_batch_size": 4}, 88074892),
    ],
)
def test_scores_before_an_update_are_those_of_trl(changes: dict[str, Any], traced: int) -> None:
    """A forward pass alone keeps nothing of a layer, and its head is in tiles as well."""
    model, workload = architecture_from_config(WIDE_LLAMA), _grpo(**changes)
    values = sizes.evaluate_monomials(*workload.rows)
    points = record_scoring(model, build_training_pass(model, workload, Layout()))

    timeline = build_train_timeline(model, workload, Layout())
    scored = sum(find_highest_point(points, values).evaluate_parts(values).values())
    resident = timeline.steady_bytes - timeline.states.optimizer_states
    assert 0 <= traced - resident - scored <= _SCALARS


def test_a_reference_comes_with_its_scores() -> None:
    """Its log-probabilities are one more number of each generated token, and no second pass."""
    model = architecture_from_config(WIDE_LLAMA)
    alone, beside = (
        dict(build_train_timeline(model, _grpo(**_LORA, reference=reference), Layout()).phases)
        for reference in (None, Reference.ADAPTERS_OFF)
    )

    assert beside["forward_pass"] - alone["forward_pass"] == 2 * 384 * 4


def test_a_policy_that_generates_by_itself_needs_no_old_scores() -> None:
    """TRL corrects what another engine sampled, and takes its own scores as they are."""
    model = architecture_from_config(WIDE_LLAMA)
    own = Rollout(engine=RolloutEngine.TRANSFORMERS)
    elsewhere, itself = (
        dict(build_train_timeline(model, _grpo(rollout=rollout), Layout()).phases)
        for rollout in (None, own)
    )

    assert elsewhere["forward_pass"] - itself["forward_pass"] == 2 * 384 * 4


def test_logits_of_verl_have_their_gradient_in_place() -> None:
    """The largest tensors of its loss are there once, in 16 bits."""
    model = architecture_from_config(WIDE_LLAMA)
    workload = _grpo(loss=Loss.FLASH_CROSS_ENTROPY, precision="bf16")
    timeline = build_train_timeline(model, workload, Layout())

    loss = next(peak for peak in timeline.peaks if peak.name == "loss")
    assert loss.parts["logits"] == 2 * 512 * 128256 * 2


def test_openrlhf_casts_whole_logits() -> None:
    """The cast ones stay for backward, which makes a gradient of their size beside them."""
    model = architecture_from_config(WIDE_LLAMA)
    workload = _grpo(loss=Loss.FULL_LOGITS, precision="bf16")
    timeline = build_train_timeline(model, workload, Layout())

    loss = next(peak for peak in timeline.peaks if peak.name == "loss")
    assert loss.parts["logits"] == 2 * 2 * 512 * 128256 * 4


def test_an_entropy_bonus_makes_two_gradients_of_whole_logits() -> None:
    """One of its compiled kernel, and one of the log-probabilities that then spare the logits."""
    model = architecture_from_config(WIDE_LLAMA)
    workload = _grpo(loss=Loss.FLASH_CROSS_ENTROPY, precision="bf16", entropy_bonus=True)
    timeline = build_train_timeline(model, workload, Layout())

    loss = next(peak for peak in timeline.peaks if peak.name == "loss")
    assert loss.parts["logits"] == 3 * 2 * 512 * 128256 * 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"trainer": Trainer.SUPERVISED}, "completion_length is trainer grpo's"),
        ({"completion_length": 512}, "at least one token of each is the prompt's"),
        ({"sequence_length": 1, "completion_length": None}, "one of the completion are 2"),
        ({"reference": Reference.PRECOMPUTED}, "whose sequences are new"),
        (
            {
                "trainer": Trainer.DPO,
                "completion_length": None,
                "reference": Reference.OFFLOADED,
            },
            "it is grpo's; say model",
        ),
        (
            {"trainer": Trainer.SUPERVISED, "completion_length": None, "entropy_bonus": True},
            "entropy_bonus is trainer grpo's",
        ),
        (
            {"trainer": Trainer.SUPERVISED, "completion_length": None, "rollout": Rollout()},
            "rollout is trainer grpo's",
        ),
    ],
)
def test_what_a_policy_alone_has_is_refused_elsewhere(changes: dict[str, Any], words: str) -> None:
    """The words say whose it is, or what would be right."""
    with pytest.raises(InvalidInputError, match=words):
        _grpo(**changes)
