"""Releases of TRL, told by arguments that later ones lack.

A launch of an older release has that one's defaults. The configs of TRL 0.11 to 1.16
(``trl/trainer/*_config.py``) were compared.
"""

from collections.abc import Mapping

from service.formats.launches.trainers.setup import Client
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.settings import Settings

Release = tuple[int, int]
BF16: Release = (0, 19)
"""Release since which autocast to bf16 is on by itself."""
CHECKPOINTED: Release = (0, 22)
"""Release since which activations are computed again by default."""
SCORED: Release = (1, 15)
"""Release since which DPO's and KTO's logits are never whole."""
SCORED_BY_KERNEL: Release = (1, 14)
"""Release since which ORPO's and CPO's log-probabilities are a kernel's."""
_POLICIES = frozenset(client for client in Client if client.is_policy)
_PREFERENCES = _POLICIES | {Client.DPO, Client.KTO, Client.ORPO, Client.CPO}
_LACKED: Mapping[str, tuple[Release, frozenset[Client]]] = {
    "max_seq_length": ((0, 20), frozenset({Client.SFT})),
    "use_liger": ((0, 18), frozenset({Client.SFT})),
    "max_prompt_length": ((1, 0), _PREFERENCES),
    "rpo_alpha": ((1, 0), frozenset({Client.DPO})),
    "reference_free": ((1, 0), frozenset({Client.DPO})),
    "use_liger_loss": ((1, 0), _PREFERENCES),
}
"""First release without an argument, and the trainers that had it."""


def tell_older_release(client: Client, training: Settings, draft: Draft) -> Release | None:
    """Return what release a launch is older than, and say so.

    None where it may be the one whose defaults are known.
    """
    dated = [
        (release, setting)
        for name, (release, clients) in _LACKED.items()
        if client in clients and (setting := training.peek(name)) is not None
    ]
    if not dated:
        return None
    before, sign = min(dated, key=lambda one: one[0])
    release = show_release(before)
    draft.set_version("trl", f"before {release}")
    draft.warn(f"TRL has {sign.key} before {release}: defaults are those of such a release")
    return before


def show_release(release: Release) -> str:
    """Return a release as it is written."""
    return f"{release[0]}.{release[1]}"
