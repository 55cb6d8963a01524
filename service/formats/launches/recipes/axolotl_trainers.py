"""TRL's trainers that axolotl runs (``core/builders/rl.py``)."""

from service.formats.launches.trainers.setup import Client
from service.formats.launches.trainers.trl_config import UNREFERRED
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.settings import Settings

_CLIENTS = {
    "dpo": Client.DPO,
    "ipo": Client.DPO,
    "kto": Client.KTO,
    "orpo": Client.ORPO,
    "simpo": Client.CPO,
}
SCORING = {Client.DPO, Client.KTO, *UNREFERRED}
"""Trainers whose logits TRL 1.8 makes whole, which axolotl installs."""


def read_client(config: Settings, draft: Draft) -> Client:
    """Return the trainer that runs.

    Raises LaunchFormatError for a kind that has no model here.
    """
    kind, rewards = config.take("rl"), config.take("reward_model")
    if kind is not None:
        client = kind.as_choice(_CLIENTS)
        if client is Client.KTO and "adapter" not in config:
            # It is given no reference, and loads one of its own (core/builders/rl.py, train.py).
            expected = "dpo or ipo, or an adapter: axolotl holds a reference beside KTOTrainer's"
            raise kind.refuse(f"{expected}, and three models have no term")
        draft.note(kind, f"the trainer is TRL's of {client.value}")
        return client
    if rewards is not None and rewards.as_bool():
        draft.note(rewards, "pairs are compared by a head of one score")
        return Client.REWARD
    return Client.TRAINER
