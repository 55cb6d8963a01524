"""Numbers of a Zamba2 model, and their checks."""

from dataclasses import dataclass

from service.estimator.model.spec import DecoderSpec
from service.estimator.model.trees.decoder import check_decoder
from service.estimator.values.errors import InvalidConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Zamba2Spec(DecoderSpec):
    """Numbers of a Zamba2 model.

    ``layer_kinds`` has a letter for each layer, m for a mixer and h for one behind a shared
    transformer.
    """

    layer_kinds: str
    num_transformers: int
    adapter_rank: int
    adapts_attention: bool
    mixer_heads: int
    mixer_head_dim: int
    state_size: int
    num_groups: int
    kernel_size: int
    chunk_size: int


def check_heads(spec: Zamba2Spec) -> None:
    """Refuse heads that their groups or adapters do not fit."""
    check_decoder(spec)
    if spec.mixer_heads % spec.num_groups:
        message = (
            f"mamba_ngroups {spec.num_groups} does not divide n_mamba_heads {spec.mixer_heads}"
        )
        raise InvalidConfigError(message, field="mamba_ngroups")
    if spec.adapts_attention and spec.num_key_value_heads != spec.num_attention_heads:
        message = (
            f"use_shared_attention_adapter adds as many features as {spec.num_attention_heads} "
            f"heads have to the keys of {spec.num_key_value_heads}"
        )
        raise InvalidConfigError(message, field="num_key_value_heads")
