"""Longest contexts that an engine holds, with what is asked of it."""

from dataclasses import replace

import pytest

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, resolve_model
from service.estimator.backends.registry import get_backend
from service.estimator.cache import PlanCache
from service.estimator.values.layout import Layout
from service.estimator.values.units import GIB
from service.estimator.values.workload import Engine, ServeWorkload
from service.planner.fit.evaluator import make_evaluator
from service.planner.fit.verdict import missing_bytes
from service.planner.plans.ceiling_values import Maximized
from service.planner.plans.ceilings import find_ceiling
from service.planner.search.search_space import Limits, Question
from tests.unit.planner.builders import a_device

MODEL = load_architecture(resolve_model("smollm2-135m"))
PLANS = PlanCache()


@pytest.mark.parametrize("engine", [Engine.VLLM, Engine.SGLANG])
def test_the_longest_context_that_an_engine_holds(engine: Engine) -> None:
    """Its pool has room for one sequence of the ceiling and not for one token more; a model's last
    position ends it too.
    """
    device = resolve_gpu("RTX-4090").to_device()
    subject = make_evaluator(load_architecture(resolve_model("llama-3.1-8b")), device, plans=PLANS)
    chat = ServeWorkload(
        engine=engine,
        num_sequences=1,
        prompt_tokens=100,
        output_tokens=20,
    )
    alone = Question(workload=chat, layout=Layout(), limits=Limits(max_gpus=1))
    found = find_ceiling(alone, Maximized.MAX_MODEL_LEN, lambda _: subject)
    roomy = make_evaluator(MODEL, a_device(80 * GIB), plans=PLANS)
    all_of_it = find_ceiling(alone, Maximized.MAX_MODEL_LEN, lambda _: roomy)

    assert found.value is not None
    assert found.next is not None
    assert 120 < found.value < 131_072
    assert found.next.value == found.value + 1
    assert found.next.missing_bytes > 0
    assert all_of_it.value == MODEL.spec.max_position_embeddings
    assert all_of_it.refusal == f"{all_of_it.value:,} are all positions that the model has"


@pytest.mark.parametrize("engine", sorted(set(Engine) - {Engine.TRANSFORMERS}))
def test_the_longest_context_fits_what_is_asked(engine: Engine) -> None:
    """Eight slots of llama.cpp have a context each; what starts with any room is asked for one
    request of that length, and says so.
    """
    device = resolve_gpu("RTX-4090").to_device()
    subject = make_evaluator(load_architecture(resolve_model("llama-3.1-8b")), device, plans=PLANS)
    chat = ServeWorkload(engine=engine, num_sequences=8, prompt_tokens=500, output_tokens=100)

    found = find_ceiling(
        Question(workload=chat, layout=Layout(), limits=Limits(max_gpus=1)),
        Maximized.MAX_MODEL_LEN,
        lambda _: subject,
    )

    assert found.value is not None
    assert found.best is not None
    asked = replace(chat, max_model_len=found.value)
    assert not missing_bytes(subject.answer(asked, Layout()), device, confident=True)
    replaced = found.best.workload != asked
    assert replaced == get_backend(engine).starts_with_any_room
    assert [line.partition(":")[0] for line in found.notes] == [
        f"workload = one request of {found.value:,} tokens, in place of 8 of 600"
    ] * replaced
