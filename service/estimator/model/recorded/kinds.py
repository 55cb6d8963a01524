"""Kinds of modules that weights are counted under, by their names.

Names are those that transformers 5.23 gives its modules; a recording has nothing else to go by.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from service.estimator.model.recorded.recorded_model import RecordedLayer, RecordedSpec
from service.estimator.model.weights.tensors import Linear, Weight

EXPERTS, SHARED_EXPERT = "mlp_experts", "mlp_shared_expert"
STACK_DIMENSIONS = 3
"""A stack of experts is one tensor of expert, output and input."""
_KINDS = (
    (r"norm|ln_|\bln", "norm"),
    (r"shared_expert_gate|router|\bgate\.(weight|bias|wg\.)|e_score_correction_bias", "router"),
    (r"shared_expert|shared_mlp", SHARED_EXPERT),
    (r"experts\b", EXPERTS),
    (r"\bmamba|linear_attn|\bssm|\bconv\b|conv1d|A_log|dt_(bias|proj)", "ssm"),
    (r"attn|attention", "attention"),
    (r"mlp|expert|feed_forward|ffn|fc\d|dense", "mlp"),
    (r"embed|\bwpe\b|\bwte\b", "embedding"),
    (r"head", "head"),
)
_MIXER = re.compile(r"\bmixer\.")
"""A name that says nothing: state spaces, attention and feed-forwards have it (nemotron_h)."""


def guess_kind(name: str) -> str:
    """Return the kind under which a weight is counted, by its name."""
    return next((kind for pattern, kind in _KINDS if re.search(pattern, name)), "other")


def count_idle_parameters(layer: RecordedLayer, spec: RecordedSpec) -> int:
    """Return the parameters of experts that one token is not routed to.

    None where the config does not say to how many it is.
    """
    routed, experts = spec.num_experts_per_token, spec.num_experts
    if not 0 < routed < experts:
        return 0
    stacks = sum(weight.numel for weight in layer.weights if weight.kind == EXPERTS)
    return stacks * (experts - routed) // experts


def name_kinds(layer: RecordedLayer) -> RecordedLayer:
    """Return a layer whose weights have the kinds of what it runs."""
    mixer = _name_mixer(layer)

    def name_kind(name: str) -> str:
        kind = guess_kind(name)
        unclear = kind in {"other", "ssm", "mlp"} and _MIXER.search(name)
        return mixer if unclear else kind

    return replace(
        layer,
        weights=tuple(replace(weight, kind=name_kind(weight.name)) for weight in layer.weights),
        linears=tuple(
            replace(linear, kind=name_kind(f"{linear.name}.weight")) for linear in layer.linears
        ),
    )


def _name_mixer(layer: RecordedLayer) -> str:
    """Return the kind of a layer's ``mixer``, by what it keeps."""
    if layer.cache is None or layer.cache.states:
        return "ssm"
    return "attention" if layer.cache.caches else "mlp"


def count_experts(weights: Sequence[Weight]) -> int:
    """Return the experts of a layer's stacks, 0 without."""
    counts = (
        weight.shape[0]
        for weight in weights
        if guess_kind(weight.name) == EXPERTS and len(weight.shape) == STACK_DIMENSIONS
    )
    return max(counts, default=0)


def list_by_kind(linears: Sequence[Linear], kind: str) -> tuple[Linear, ...]:
    """Return the linear layers of a kind, in order."""
    return tuple(linear for linear in linears if linear.kind == kind)
