"""Steps of engines, of replicas over several GPUs, of adapters on attention and of DPO."""

from dataclasses import replace

import pytest

from service.catalog.models import load_architecture, resolve_model
from service.estimator.values.batches import Evaluation
from service.estimator.values.layout import Layout
from service.estimator.values.losses import Reference, Trainer
from service.estimator.values.units import GIB, MIB
from service.estimator.values.workload import Engine, Method, ServeWorkload, TrainWorkload
from service.planner.fit.fit import assess_fit
from service.planner.fit.qlora import make_qlora
from service.planner.fit.verdict import Verdict
from service.planner.remedies import (
    evaluation_steps,
    layout_steps,
    serving_steps,
    training_steps,
)
from service.planner.remedies.effects import describe_effects
from service.planner.remedies.find import find_changes
from service.planner.remedies.steps import RemedyStep
from tests.unit.planner.builders import ADAPTERS, CHAT, ONE_GPU, SHORT, a_shallow_subject

ENGINE = replace(CHAT, engine=Engine.VLLM)
GPT2 = load_architecture(resolve_model("gpt2"))


def test_an_engine_gets_more_of_the_gpu_in_small_strides() -> None:
    """Only fractions above the one that is asked are offered, and none by engines without one."""
    fractions = [
        workload.gpu_memory_fraction
        for workload, _ in serving_steps.raise_memory_fraction(
            (replace(ENGINE, gpu_memory_fraction=0.93), ONE_GPU)
        )
        if isinstance(workload, ServeWorkload)
    ]

    assert fractions == [0.95, 0.97]
    assert list(serving_steps.raise_memory_fraction((CHAT, ONE_GPU))) == []


def test_a_served_replica_is_spread_over_stages() -> None:
    """Where eight ranks split a replica already, stages come from other nodes."""
    stages = [
        layout.pipeline_parallel
        for _, layout in layout_steps.add_pipeline_stages((ENGINE, Layout(tensor_parallel=8)))
    ]

    assert stages == [2, 4, 8, 16]
    alone = replace(CHAT, engine=Engine.LLAMA_CPP)
    assert list(layout_steps.add_pipeline_stages((alone, ONE_GPU))) == []


def test_attention_alone_is_named_by_layers_that_nothing_else_has() -> None:
    """GPT-2 calls two layers ``c_proj``, of which one is no attention."""
    ((adapted, _),) = training_steps.adapt_attention_only(GPT2, (ADAPTERS, ONE_GPU))

    assert isinstance(adapted, TrainWorkload)
    assert adapted.lora is not None
    assert adapted.lora.targets == ("c_attn",)


def test_dpo_does_without_its_second_model() -> None:
    """Adapters have their base as the reference; without them the data set has it."""
    pairs = replace(SHORT, trainer=Trainer.DPO, reference=Reference.MODEL)
    references = [
        [workload.reference for workload, _ in training_steps.drop_reference((trained, ONE_GPU))]  # type: ignore[union-attr]  # trains
        for trained in (pairs, replace(pairs, method=Method.LORA, lora=ADAPTERS.lora))
    ]

    assert references == [
        [Reference.PRECOMPUTED],
        [Reference.ADAPTERS_OFF, Reference.PRECOMPUTED],
    ]


@pytest.mark.parametrize(
    ("step", "changed"),
    [
        (evaluation_steps.keep_losses_alone, [(6, 0)]),
        (evaluation_steps.keep_fewer_batches, [(6, 2), (6, 1)]),
        (evaluation_steps.halve_evaluated_batch, [(3, 4), (1, 4)]),
    ],
)
def test_an_evaluation_runs_and_keeps_fewer(
    step: RemedyStep, changed: list[tuple[int, int]]
) -> None:
    """Its batch and what it keeps are halved, or losses alone are kept."""
    evaluated = replace(SHORT, evaluation=Evaluation(batch_size=6, kept_batches=4))

    assert [
        (workload.evaluation.batch_size, workload.evaluation.kept_batches)
        for workload, _ in step((evaluated, ONE_GPU))
        if isinstance(workload, TrainWorkload) and workload.evaluation is not None
    ] == changed
    least = replace(SHORT, evaluation=Evaluation(batch_size=1))
    assert list(step((SHORT, ONE_GPU))) == list(step((least, ONE_GPU))) == []


def test_losses_alone_are_told_as_a_loss_of_metrics() -> None:
    """Fewer batches, and smaller ones, change no result."""
    evaluation = Evaluation(batch_size=6, kept_batches=4)
    before = replace(SHORT, evaluation=evaluation), ONE_GPU
    fewer = (
        replace(evaluation, kept_batches=0),
        replace(evaluation, kept_batches=1),
        replace(evaluation, batch_size=1),
    )
    changed = [(replace(SHORT, evaluation=less), ONE_GPU) for less in fewer]

    assert [len(describe_effects(GPT2, before, after)) for after in changed] == [1, 0, 0]


def test_sequences_too_long_for_one_gpu_are_shared() -> None:
    """Ranks that share them run the same job: nothing of its result is lost."""
    subject = a_shallow_subject(
        2, usable_bytes=16 * GIB, model="llama-3.2-1b", depth="num_hidden_layers"
    )
    workload = replace(ADAPTERS, sequence_length=32768)

    shared = [
        remedy
        for remedy in find_changes(subject, workload, ONE_GPU)
        if remedy.change.get("context_parallel") and not remedy.effects
    ]

    assert shared
    assert all(remedy.verdict is Verdict.FITS for remedy in shared)
    assert all(remedy.layout.context_parallel == remedy.num_gpus for remedy in shared)


def test_changes_are_added_to_the_nearest_set_where_no_three_fit() -> None:
    """A model in 4 bits is trained on its one GPU, and each of the changes is needed for that."""
    subject = a_shallow_subject(
        2, usable_bytes=2200 * MIB, model="llama-3.2-1b", depth="num_hidden_layers"
    )
    workload = make_qlora(replace(SHORT, sequence_length=2048), ONE_GPU)

    fitting = [
        remedy
        for remedy in find_changes(subject, workload, ONE_GPU, max_gpus=1)
        if remedy.verdict is Verdict.FITS
    ]

    names = {"activation_checkpointing", "loss", "lora", "fp32_norms_and_head"}
    assert [set(remedy.change) for remedy in fitting] == [names]
    assert "norms, embeddings and head stay in 16 bits, not in fp32" in fitting[0].effects
    for name in names:
        needed = replace(fitting[0].workload, **{name: getattr(workload, name)})
        assert assess_fit(subject, needed, ONE_GPU).verdict is not Verdict.FITS
