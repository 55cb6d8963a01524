"""Recording of a model: its config in, its weights and passes out."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from service.estimator.model.recorded.inputs import RecordedInput
from service.estimator.model.recorded.recorded_model import CacheParts, RecordedModel
from service.jobs.contract import FailureKind
from service.probing.refusal import Refusal
from worker.probes.architecture.buffers import count_buffers
from worker.probes.architecture.caches import hear_caches
from worker.probes.architecture.check import check_recording, check_weights, holds_for_one
from worker.probes.architecture.depth import (
    Signature,
    Stack,
    differs_in_depth_alone,
    find_stack,
    list_needed,
    shorten,
)
from worker.probes.architecture.describe import describe_model, find_head, name_embeddings
from worker.probes.architecture.hearing import DoesNotRunError, Hearing
from worker.probes.architecture.listening.anchor import find_embedder
from worker.probes.architecture.listening.listen import NoLossError, Variant, make_fake_model
from worker.probes.architecture.listening.reading import find_reading, has_one_pass
from worker.probes.architecture.listening.variants import VARIANTS, list_served, list_steps
from worker.probes.architecture.pieces import (
    Lower,
    PieceMaker,
    choose_domain,
    list_thresholds,
    make_pieces,
    name_pieces,
    unify_kinds,
)
from worker.probes.architecture.programs import LoweredPass, lower_flat, lower_pass
from worker.probes.models.model_class import build_any_model, settle_config
from worker.probes.run.sharing import run_each


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
    hf_config = settle_config(config)
    recorder = Recorder(
        config=config,
        hf_config=hf_config,
        model=_build_meta(config, hf_config),
        variants=variants,
        processes=processes,
        on_begin=on_begin,
    )
    recorded = _record_short(recorder) or recorder.record()
    check_weights(recorded, recorder.model)
    return recorded


def _build_meta(config: Mapping[str, Any], hf_config: PreTrainedConfig) -> PreTrainedModel:
    with torch.device("meta"):
        return build_any_model(config, hf_config, dtype=torch.float32, attention="sdpa")


def _record_short(full: "Recorder") -> RecordedModel | None:
    """Record a stack on a model with just its kinds of layers.

    None where that does not say what the whole model runs.
    """
    stack = find_stack(full.model)
    for places in list_needed(stack.signatures):
        short = _shorten(full, stack, places)
        if short is not None:
            return _record_shortened(full, short, stack, places)
    return None


def _shorten(full: "Recorder", stack: Stack, places: Sequence[int]) -> "Recorder | None":
    """Return the recorder of some layers, None where their config builds others."""
    if len(places) >= len(stack.signatures):
        return None
    try:
        hf_config = shorten(full.hf_config, places)
        model = _build_meta(full.config, hf_config)
    except Exception:  # noqa: BLE001 - any code of transformers runs here
        return None
    if not differs_in_depth_alone(full.model, model, stack, places):
        return None
    return replace(full, hf_config=hf_config, model=model)


def _record_shortened(
    full: "Recorder", short: "Recorder", stack: Stack, places: Sequence[int]
) -> RecordedModel | None:
    """Record the layers at ``places``, which the others are like."""
    try:
        steps = unify_kinds(short.lower_steps((lower_pass,)))
        lowered = None if steps is None else short.lower_served(steps)
    except Refusal:
        return None
    if lowered is None:
        return None
    order = _extend_order(stack, lowered, places)
    if order is None:
        return None
    heard = dict(zip(places, short.hear(len(places)), strict=True))
    first = {order[place]: heard[place] for place in reversed(places)}
    caches = [heard.get(place, first[kind]) for place, kind in enumerate(order)]
    return describe_model(full.model, lowered, order, caches)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorder:
    """A model on the meta device, and how it is recorded."""

    config: Mapping[str, Any]
    hf_config: PreTrainedConfig
    model: PreTrainedModel
    variants: Mapping[str, Variant]
    processes: int
    on_begin: Callable[[str], None]

    @property
    def reads(self) -> RecordedInput | None:
        """Pixels or audio that the model reads."""
        return find_reading(self.model)

    def record(self) -> RecordedModel:
        """Record all layers, as a stack or one after another."""
        ways = (lower_pass, lower_flat) if self.reads is None else (lower_pass,)
        lowered = unify_kinds(self._lower_layers(ways))
        if not lowered:
            lowered = self.lower_steps((lower_flat,))
        lowered = self.lower_served(lowered)
        order = next(iter(lowered.values())).kinds
        return describe_model(self.model, lowered, order, self.hear(len(order)))

    def _lower_layers(self, ways: Sequence[Lower]) -> dict[str, LoweredPass]:
        """Return training passes, none where layers are no stack."""
        with suppress(*(() if self.reads is None else (Refusal,))):
            return self.lower_steps(ways)
        return {}

    def hear(self, num_layers: int) -> tuple[CacheParts | None, ...]:
        """Return what the cache keeps of each layer."""
        if not num_layers or has_one_pass(self.model):
            return (None,) * num_layers
        return hear_caches(self.config, self.hf_config, num_layers)

    def lower_steps(self, ways: Sequence[Lower]) -> dict[str, LoweredPass]:
        """Return the passes of training, piece by piece.

        Formats in which the model's own code does not run are left out, and passes with frozen
        weights or under autocast that no plain pass proves. Raises Refusal where another cannot be
        recorded, or a model of text has none.
        """
        embeds, casts = find_embedder(self.model) is not None, count_buffers(self.model)[0] > 0
        names = list_steps(self.variants, embeds=embeds, casts=casts)
        outcomes: dict[str, list[LoweredPass]] = {}
        failure: Refusal | None = None
        for name, outcome in self._lower_each(names, ways):
            if isinstance(outcome, Refusal) and (
                isinstance(outcome, DoesNotRunError | NoLossError) or self.variants[name].is_further
            ):
                failure = outcome
            elif isinstance(outcome, Refusal):
                raise outcome
            else:
                outcomes[name] = outcome
        if failure is not None and not outcomes and self.reads is None:
            raise failure
        return {
            key: part
            for name in names
            if name in outcomes
            for key, part in name_pieces(name, outcomes[name])
        }

    def lower_served(self, steps: Mapping[str, LoweredPass]) -> dict[str, LoweredPass]:
        """Return the passes of training, and those that serve.

        Those that do not run, or not the same stack, are left out. A model whose class takes a
        cache as a decoder alone (BERT) has one pass, as one that takes none.
        """
        is_flat = any(part.prefix is None for part in steps.values())
        once = has_one_pass(self.model)
        if is_flat and not once:
            return dict(steps)
        ways = (lower_flat,) if is_flat else (lower_pass,) if steps else (lower_pass, lower_flat)
        lowered, refusal = self._lower_served(steps, ways, once=once)
        if not once and len(lowered) == len(steps):
            lowered, refusal = self._lower_served(steps, ways, once=True)
        if refusal is not None and not steps:
            raise refusal
        return lowered

    def _lower_served(
        self, steps: Mapping[str, LoweredPass], ways: Sequence[Lower], *, once: bool
    ) -> tuple[dict[str, LoweredPass], Refusal | None]:
        """Return passes with those that serve, and why one lacks."""
        lowered, refusal = dict(steps), None
        names = list_served(self.variants, once=once, generates=self.model.can_generate())
        outcomes = dict(self._lower_each(names, ways))
        for name in names:
            pieces = outcomes[name]
            if isinstance(pieces, Refusal):
                refusal = refusal or pieces
            else:
                lowered = unify_kinds(lowered | dict(name_pieces(name, pieces))) or lowered
        return lowered, refusal

    def _lower_each(
        self, names: Sequence[str], ways: Sequence[Lower]
    ) -> Iterator[tuple[str, list[LoweredPass] | Refusal]]:
        """Yield the pieces of variants as they are lowered."""
        return run_each(
            lambda name: self.lower(name, self.variants[name], ways),
            names,
            processes=self.processes,
            on_begin=self.on_begin,
        )

    def lower(self, name: str, variant: Variant, ways: Sequence[Lower]) -> list[LoweredPass]:
        """Return a variant's programs, as plain passes prove them."""
        head, embeddings = find_head(self.model), name_embeddings(self.model)
        thresholds = list_thresholds(self.hf_config)
        refusal: Refusal | None = None
        with make_fake_model(self.config, self.hf_config, variant) as fake:
            hearing = Hearing(
                fake=fake, variant=variant, embeddings=embeddings, steps_of_length=thresholds
            )

            def check(lowered: LoweredPass) -> LoweredPass:
                return self._check(lowered, fake, name, variant)

            for way in ways:
                maker = PieceMaker(
                    hearing=hearing, lower=way, head=head, check=check, thresholds=thresholds
                )
                try:
                    return make_pieces(maker, choose_domain(self.reads))
                except DoesNotRunError:
                    raise
                except Refusal as error:
                    refusal = error
                except (LookupError, ValueError) as error:
                    message = (
                        f"this model's layers are called in a way that is not followed: {error}"
                    )
                    refusal = Refusal(FailureKind.UNSUPPORTED, message)
        assert refusal is not None  # noqa: S101 - every way has raised one
        raise refusal

    def _check(
        self, lowered: LoweredPass, fake: PreTrainedModel, name: str, variant: Variant
    ) -> LoweredPass:
        """Return a piece with what it misses and where it holds."""
        recorded = describe_model(self.model, {name: lowered}, lowered.kinds)
        domain = lowered.recorded.domain
        difference = check_recording(recorded, fake, name, variant, domain)
        if domain.max_batch is None and not holds_for_one(recorded, fake, variant, domain):
            domain = replace(domain, min_batch=2)
        return replace(
            lowered, difference=difference, recorded=replace(lowered.recorded, domain=domain)
        )


def _extend_order(
    stack: Stack, lowered: Mapping[str, LoweredPass], places: Sequence[int]
) -> tuple[int, ...] | None:
    """Return every layer's kind.

    None where layers that look alike ran differently.
    """
    all_kinds = {part.kinds for part in lowered.values()}
    if len(all_kinds) > 1 or any(part.prefix != stack.prefix for part in lowered.values()):
        return None
    kinds: dict[Signature, int] = {}
    for place, kind in zip(places, all_kinds.pop(), strict=True):
        if kinds.setdefault(stack.signatures[place], kind) != kind:
            return None
    return tuple(kinds[signature] for signature in stack.signatures)
