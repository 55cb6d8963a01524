"""Arguments that every launcher of transformers' Trainer comes down to.

Axolotl, LLaMA-Factory, Unsloth and TRL build the arguments of ``TrainingArguments``,
``from_pretrained`` and ``LoraConfig`` from their own words. So do their readers, by those names.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from service.formats.launches.values.settings import Settings

TRANSFORMERS, PEFT, TRL = "5.23.0", "0.21.0", "1.16.0"
"""Releases whose keys and defaults are known."""


class Client(StrEnum):
    """Trainer that runs."""

    TRAINER = "trainer"
    SFT = "sft"
    DPO = "dpo"
    KTO = "kto"
    ORPO = "orpo"
    CPO = "cpo"
    REWARD = "reward"
    GRPO = "grpo"
    RLOO = "rloo"

    @property
    def is_trl(self) -> bool:
        """Whether it is one of TRL's."""
        return self is not Client.TRAINER

    @property
    def is_policy(self) -> bool:
        """Whether its sequences are generated."""
        return self in {Client.GRPO, Client.RLOO}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerSetup:
    """Arguments of a trainer's script, by the names of their libraries.

    ``training`` are ``TrainingArguments``' and those of TRL's configs, ``model`` are
    ``from_pretrained``'s (``quantization_config.load_in_4bit`` and the rest below it), ``adapters``
    ``LoraConfig``'s. ``prepares`` says whether PEFT's ``prepare_model_for_kbit_training`` is
    called, None where nobody knows.
    """

    client: Client
    model_name: str | None = None
    training: Settings
    model: Settings = field(default_factory=Settings)
    adapters: Settings = field(default_factory=Settings)
    prepares: bool | None = None
    keeps_adapters_fp32: bool = False
    """Whether TRL's cast of adapters to bf16 is undone, as LLaMA-Factory does."""
    has_own_loss: bool = False
    """Whether SFT's loss is that of the kernels, as Unsloth's is, unless TRL's is asked for."""
    applies_liger: bool = False
    """Whether its program puts Liger's kernels in by itself, without Trainer's switch."""
    measures: bool | None = None
    """Whether its evaluations keep logits for metrics, None where nobody says."""
    uses_all_gpus: bool = False
    """Whether its program starts one process a GPU by itself."""
    reads_nodes: bool = False
    """Whether that takes its number of nodes from ``NNODES``."""
    trl_before: tuple[int, int] | None = None
    """Release that TRL's is older than, None where it may be the one that is known."""
