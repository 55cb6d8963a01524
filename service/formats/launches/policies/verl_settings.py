"""Settings of verl's trainer, with its defaults."""

from dataclasses import dataclass

from service.formats.launches.values.draft import Draft
from service.formats.launches.values.settings import Setting, Settings, make_default

VERL = "0.9.1"
_SOURCE = f"verl {VERL}, verl/trainer/config/_generated_ppo_trainer.yaml"
ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
MODEL, FSDP = "actor_rollout_ref.model", "actor_rollout_ref.actor.fsdp_config"
DTYPES = {
    **dict.fromkeys(("fp32", "float32"), "fp32"),
    **dict.fromkeys(("bf16", "bfloat16"), "bf16"),
    **dict.fromkeys(("fp16", "float16", "half"), "fp16"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class VerlTrainer:
    """Settings of a trainer, its GPUs and the longest sequence."""

    settings: Settings
    draft: Draft
    num_gpus: int
    prompt: int
    response: int
    adapts: bool

    def take(self, name: str, value: object) -> Setting:
        """Return a setting, or verl's default."""
        return take(self.settings, name, value)


def take(settings: Settings, name: str, value: object) -> Setting:
    """Return a setting, or a default of verl's."""
    return settings.take(name) or make_default(name, value, _SOURCE)
