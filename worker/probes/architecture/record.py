"""Recording of a model: its config in, its weights and passes out."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from service.estimator.model.recorded.recorded_model import CacheParts, RecordedModel
from service.jobs.contract import FailureKind
from service.probing.refusal import Refusal
from worker.probes.architecture.caches import hear_caches
from worker.probes.architecture.check import check_recording, holds_for_one
from worker.probes.architecture.depth import (
    Signature,
    Stack,
    count_needed,
    differs_in_depth_alone,
    find_stack,
    shorten,
)
from worker.probes.architecture.describe import describe_model, find_head, name_embedding
from worker.probes.architecture.hearing import Hearing, OtherOperationsError
from worker.probes.architecture.listening.listen import Phase, Variant, make_fake_model
from worker.probes.architecture.listening.model_class import build_any_model, build_config
from worker.probes.architecture.lowering import Passes
from worker.probes.architecture.polynomials import (
    ALIGNED,
    FEW,
    FITTED,
    LENGTH_STEP,
    PROVED,
    NoPolynomial,
)
from worker.probes.architecture.programs import LoweredPass, lower_flat, lower_pass
from worker.probes.sharing import run_each

VARIANTS = {
    "fp32": Variant(dtype=torch.float32),
    "half": Variant(dtype=torch.bfloat16),
    "autocast": Variant(dtype=torch.float32, autocast=torch.bfloat16),
    "fp32/frozen": Variant(dtype=torch.float32, frozen=True),
    "half/frozen": Variant(dtype=torch.bfloat16, frozen=True),
    "autocast/frozen": Variant(dtype=torch.float32, autocast=torch.bfloat16, frozen=True),
    "fp32/prefill": Variant(dtype=torch.float32, phase=Phase.PREFILL),
    "fp32/decode": Variant(dtype=torch.float32, phase=Phase.DECODE),
    "half/prefill": Variant(dtype=torch.bfloat16, phase=Phase.PREFILL),
    "half/decode": Variant(dtype=torch.bfloat16, phase=Phase.DECODE),
    "fp32/generate/prefill": Variant(dtype=torch.float32, phase=Phase.GENERATED_PREFILL),
    "fp32/generate/decode": Variant(dtype=torch.float32, phase=Phase.GENERATED_DECODE),
    "half/generate/prefill": Variant(dtype=torch.bfloat16, phase=Phase.GENERATED_PREFILL),
    "half/generate/decode": Variant(dtype=torch.bfloat16, phase=Phase.GENERATED_DECODE),
}


def record_model(
    config: Mapping[str, Any],
    variants: Mapping[str, Variant] = VARIANTS,
    *,
    processes: int = 1,
    on_begin: Callable[[str], None] = lambda _: None,
) -> RecordedModel:
    """Record a model of a config.

    ``on_begin`` is called with each variant's name. Raises Refusal for what transformers does not
    know or what cannot be recorded.
    """
    hf_config = build_config(config)
    hf_config.use_cache = hf_config.get_text_config().use_cache = False
    recorder = Recorder(
        config=config,
        hf_config=hf_config,
        model=_build_meta(config, hf_config),
        variants=variants,
        processes=processes,
        on_begin=on_begin,
    )
    short = _record_short(recorder)
    return recorder.record() if short is None else short


def _list_names(variants: Mapping[str, Variant], *, served: bool) -> list[str]:
    """Return the names of passes with a cache, or of all others."""
    return [name for name in variants if name.endswith(("/prefill", "/decode")) is served]


def _build_meta(config: Mapping[str, Any], hf_config: PreTrainedConfig) -> PreTrainedModel:
    with torch.device("meta"):
        return build_any_model(config, hf_config, dtype=torch.float32, attention="sdpa")


def _record_short(full: "Recorder") -> RecordedModel | None:
    """Record a stack on a model with just its kinds of layers.

    None where that does not say what the whole model runs.
    """
    stack = find_stack(full.model)
    depth = count_needed(stack.signatures)
    if depth >= len(stack.signatures):
        return None
    hf_config = shorten(full.hf_config, depth)
    model = _build_meta(full.config, hf_config)
    if not differs_in_depth_alone(full.model, model, stack):
        return None
    short = replace(full, hf_config=hf_config, model=model)
    try:
        lowered = short.lower_steps((lower_pass,))
    except Refusal:
        return None
    lowered |= short.lower_served(lowered)
    order = _extend_order(stack, lowered)
    return None if order is None else describe_model(full.model, lowered, order, short.hear(depth))


Lower = Callable[[Passes, str | None], LoweredPass]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorder:
    """A model on the meta device, and how it is recorded."""

    config: Mapping[str, Any]
    hf_config: PreTrainedConfig
    model: PreTrainedModel
    variants: Mapping[str, Variant]
    processes: int
    on_begin: Callable[[str], None]

    def record(self) -> RecordedModel:
        """Record all layers, as a stack or one after another."""
        lowered = self.lower_steps((lower_pass, lower_flat))
        if len({(part.prefix, part.kinds) for part in lowered.values()}) > 1:
            lowered = self.lower_steps((lower_flat,))
        lowered |= self.lower_served(lowered)
        order = next(iter(lowered.values())).kinds
        return describe_model(self.model, lowered, order, self.hear(len(order)))

    def hear(self, num_layers: int) -> tuple[CacheParts | None, ...]:
        """Return what the cache keeps of each layer."""
        return hear_caches(self.config, self.hf_config, num_layers) if num_layers else ()

    def lower_steps(self, ways: Sequence[Lower]) -> dict[str, LoweredPass]:
        """Return the passes of training.

        Raises Refusal where one of them cannot be recorded.
        """
        names = _list_names(self.variants, served=False)
        outcomes: dict[str, LoweredPass] = {}
        for name, outcome in self._lower_each(names, ways):
            if isinstance(outcome, Refusal):
                raise outcome
            outcomes[name] = outcome
        return {name: outcomes[name] for name in names}

    def lower_served(self, steps: Mapping[str, LoweredPass]) -> dict[str, LoweredPass]:
        """Return the passes with a cache.

        Those that do not run, or not the same stack, are left out.
        """
        layouts = {(part.prefix, part.kinds) for part in steps.values()}
        if (None, ()) in layouts:
            return {}
        names = [
            name
            for name in _list_names(self.variants, served=True)
            if "/generate/" not in name or self.model.can_generate()
        ]
        outcomes = dict(self._lower_each(names, (lower_pass,)))
        lowered: dict[str, LoweredPass] = {}
        for name in names:
            part = outcomes[name]
            if isinstance(part, Refusal):
                if not steps:
                    raise part
            elif not layouts or (part.prefix, part.kinds) in layouts:
                lowered[name] = part
                layouts = layouts or {(part.prefix, part.kinds)}
        return lowered

    def _lower_each(
        self, names: Sequence[str], ways: Sequence[Lower]
    ) -> Iterator[tuple[str, LoweredPass | Refusal]]:
        """Yield variants as they are lowered."""
        return run_each(
            lambda name: self.lower(name, self.variants[name], ways),
            names,
            processes=self.processes,
            on_begin=self.on_begin,
        )

    def lower(self, name: str, variant: Variant, ways: Sequence[Lower]) -> LoweredPass:
        """Return a variant's programs, as a plain pass proves them."""
        head, embedding = find_head(self.model), name_embedding(self.model)
        refusal: Refusal | None = None
        with make_fake_model(self.config, self.hf_config, variant) as fake:
            hearing = Hearing(fake=fake, variant=variant, embedding=embedding)
            for way in ways:
                try:
                    lowered = _lower_heard(hearing, way, head)
                    recorded = describe_model(self.model, {name: lowered}, lowered.kinds)
                    difference = check_recording(recorded, fake, name, variant)
                    min_batch = 1 if holds_for_one(recorded, fake, variant) else 2
                except Refusal as error:
                    refusal = error
                except (LookupError, ValueError) as error:
                    message = (
                        f"this model's layers are called in a way that is not followed: {error}"
                    )
                    refusal = Refusal(FailureKind.UNSUPPORTED, message)
                except RuntimeError as error:
                    if variant.phase is Phase.STEP:
                        raise
                    # Some kernels take one number format alone, and a step has another.
                    refusal = Refusal(FailureKind.UNSUPPORTED, str(error))
                else:
                    return replace(lowered, difference=difference, min_batch=min_batch)
        assert refusal is not None  # noqa: S101 - every way has raised one
        raise refusal


def _lower_heard(hearing: Hearing, lower: Lower, head: str | None) -> LoweredPass:
    """Return a pass's programs, and the lengths at which they hold.

    Few extents come first: they are enough where every size is one product.
    """
    attempts = (
        ((*FEW, PROVED), 1),
        ((*FEW, ALIGNED), LENGTH_STEP),
        ((*FITTED, PROVED), 1),
        ((*FITTED, ALIGNED), LENGTH_STEP),
    )
    refusal: Refusal | None = None
    for extents, length_step in attempts:
        try:
            return replace(lower(hearing.listen(extents), head), length_step=length_step)
        except (NoPolynomial, OtherOperationsError) as error:
            refusal = error
    assert refusal is not None  # noqa: S101 - every attempt has raised one
    raise refusal


def _extend_order(stack: Stack, lowered: Mapping[str, LoweredPass]) -> tuple[int, ...] | None:
    """Return every layer's kind.

    None where layers that look alike ran differently.
    """
    all_kinds = {part.kinds for part in lowered.values()}
    if len(all_kinds) > 1 or any(part.prefix != stack.prefix for part in lowered.values()):
        return None
    kinds: dict[Signature, int] = {}
    for signature, kind in zip(stack.signatures, all_kinds.pop(), strict=False):
        if kinds.setdefault(signature, kind) != kind:
            return None
    return tuple(kinds[signature] for signature in stack.signatures)
