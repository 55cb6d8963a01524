"""Draft model of speculative decoding.

Its tree is read once.
"""

import json

from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import (
    architecture_from_config,
    architecture_from_spec,
)
from service.estimator.values.errors import EstimatorError, NotModelledError
from service.estimator.values.memo import keep_latest
from service.estimator.values.speculative import DraftHead, Speculative

FIELD = "workload.speculative.draft"


def get_draft_model(speculative: Speculative | None) -> Architecture | None:
    """Return the draft model of speculative decoding.

    None where there is none: n-grams of the prompt cost nothing on the GPU.
    """
    if speculative is None or not speculative.has_draft:
        return None
    return _load_draft(speculative.config, speculative.spec, speculative.head)


def describe_draft(speculative: Speculative | None) -> str:
    """Return the end of the weights' formula that names a draft."""
    if speculative is None or (speculative.head is None and not speculative.has_draft):
        return ""
    kind = "model" if speculative.head is None else f"head ({speculative.head})"
    return f"; and those of the draft {kind}"


def count_draft_tokens(speculative: Speculative | None) -> int:
    """Return the speculated tokens that each sequence's cache has room for."""
    return 0 if speculative is None else speculative.num_tokens


@keep_latest(64)
def _load_draft(config: str | None, spec: str | None, head: DraftHead | None) -> Architecture:
    try:
        if config is None:
            draft = architecture_from_spec(json.loads(spec or ""))
        elif head is None:
            draft = architecture_from_config(json.loads(config))
        else:
            # A class of the engine's own, whose layers are those of its model_type.
            named = json.loads(config)
            named.pop("architectures", None)
            draft = architecture_from_config(named)
    except EstimatorError as error:
        error.field = f"{FIELD}.{error.field}" if error.field else FIELD
        raise
    if draft.recurrent or not draft.generates:
        raise NotModelledError(
            f"a {draft.family} as draft",
            field=FIELD,
            modelled=["decoders with attention in every layer"],
        )
    return draft
