"""Capabilities of a family, by the rules of every runner.

Nothing is listed by hand: a method or an engine is modelled where its tables let a plain question
pass, and what they refuse they refuse in their own words.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from service.estimator.memory.peft_methods import resolve_peft_method
from service.estimator.model.architecture import Architecture
from service.estimator.rules.checks import check
from service.estimator.rules.runners import get_rule_table
from service.estimator.rules.tables.serving.own_engines import TENSORRT_LLM_RANKS
from service.estimator.rules.tables.training.torchtitan import TORCHTITAN_MODELS
from service.estimator.rules.tables.training.transformers import STEP_BY_OPERATION
from service.estimator.rules.transformers import check_in_transformers
from service.estimator.values.errors import EstimatorError
from service.estimator.values.layout import Layout
from service.estimator.values.releases.litgpt import Adapter
from service.estimator.values.workload import (
    Engine,
    Framework,
    Lora,
    Method,
    ServeWorkload,
    TrainWorkload,
    Workload,
)

_TOKENS = 16
"""As many as every family has positions for."""
_ONE_GPU = Layout()
_PEFT = "IA3"
"""The method of PEFT that stands for those beside LoRA."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """Way to train or serve a family, or its refusal."""

    task: str
    runner: str
    method: str | None = None
    refusal: str | None = None

    @property
    def is_modelled(self) -> bool:
        """Whether a plain question of this kind is answered."""
        return self.refusal is None


def list_capabilities(model: Architecture) -> tuple[Capability, ...]:
    """Return every framework with every method, and every engine."""
    return tuple(_iter_capabilities(model))


def list_engine_capabilities(model: Architecture) -> tuple[Capability, ...]:
    """Return every engine."""
    return tuple(_iter_engine_capabilities(model))


def _iter_capabilities(model: Architecture) -> Iterator[Capability]:
    for framework in Framework:
        for method in Method:
            capability = Capability(task="train", runner=framework.value, method=method.value)
            yield replace(
                capability, refusal=_find_refusal(model, build_plain_workload(capability))
            )
    yield from _iter_engine_capabilities(model)


def _iter_engine_capabilities(model: Architecture) -> Iterator[Capability]:
    for engine in Engine:
        capability = Capability(task="serve", runner=engine.value)
        yield replace(capability, refusal=_find_refusal(model, build_plain_workload(capability)))


def build_plain_workload(capability: Capability) -> Workload:
    """Return one short sequence of a way to train or serve."""
    if capability.method is None:
        return ServeWorkload(
            engine=Engine(capability.runner), num_sequences=1, prompt_tokens=_TOKENS
        )
    method = Method(capability.method)
    adapts = method in {Method.LORA, Method.QLORA}
    framework = Framework(capability.runner)
    own = Adapter.V1 if framework is Framework.LITGPT else _PEFT
    return TrainWorkload(
        sequence_length=_TOKENS,
        framework=framework,
        method=method,
        lora=Lora(rank=8) if adapts else None,
        peft=own if method is Method.PEFT else None,
    )


def _find_refusal(model: Architecture, workload: Workload) -> str | None:
    try:
        _check(model, workload)
    except EstimatorError as error:
        return error.message
    return None


def _check(model: Architecture, workload: Workload) -> None:
    """Ask the tables that the runner's own answer asks."""
    if isinstance(workload, TrainWorkload):
        workload = resolve_peft_method(model, workload)
    match workload:
        case (
            ServeWorkload(engine=Engine.TRANSFORMERS)
            | TrainWorkload(framework=Framework.TRANSFORMERS)
        ):
            check_in_transformers(model, workload, _ONE_GPU)
        case TrainWorkload(framework=Framework.TORCHTITAN):
            check(get_rule_table(workload), model, workload, _ONE_GPU)
            plain = replace(workload, framework=Framework.TRANSFORMERS)
            check(STEP_BY_OPERATION, model, plain, _ONE_GPU)
            check(TORCHTITAN_MODELS, model, workload, _ONE_GPU)
        case _:
            check(get_rule_table(workload), model, workload, _ONE_GPU)
            if isinstance(workload, ServeWorkload) and workload.engine is Engine.TENSORRT_LLM:
                check(TENSORRT_LLM_RANKS, model, workload, _ONE_GPU)
