"""Scripts that train in ways without a model here."""

import re
from collections.abc import Sequence

from service.formats.launches.sources.argv import read_argv
from service.formats.launches.sources.commands import Command
from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.values.errors import LaunchFormatError

_STEMS = {
    **{stem: stem.upper() for stem in ("orpo", "cpo", "bco", "ppo", "rloo", "gkd", "xpo")},
    **{stem: stem.upper() for stem in ("prm", "tpo", "gold", "sdft", "sdpo", "ssd", "mpo")},
    "async_grpo": "asynchronous GRPO",
    "nash_md": "Nash-MD",
    "online_dpo": "online DPO",
    "distillation": "distillation",
}
_NAMES = "|".join(sorted(_STEMS, key=len, reverse=True))
_SCRIPT = re.compile(rf"(?:trl |run_|train_|finetune_)?({_NAMES})(?:_\w+)?(?:\.py)?")
"""TRL's own scripts and commands (TRL 1.16, ``trl/scripts`` and ``examples/scripts``)."""
_PROGRAMS = {
    "tune": "torchtune's recipes have no reader here",
    "text-generation-launcher": "Text Generation Inference has no model here; vllm and sglang have",
}
"""Programs of other projects, and what is to be said of them."""
_RECIPES = re.compile(
    r"^[ \t]*(?:import|from)[ \t]+(nemo_run|nemo\.collections|megatron\.bridge)\b", re.MULTILINE
)
"""Imports of scripts that build NeMo's recipes."""
_OTHERS = ("beta", "max_prompt_length", "max_completion_length", "num_generations", "rpo_alpha")
"""Arguments of TRL's trainers of preferences and policies that Trainer and SFTTrainer lack."""


def refuse_unmodelled(command: Command | None) -> None:
    """Refuse a script that is named for a trainer without a model.

    Raises LaunchFormatError, which names those that have one.
    """
    if command is not None and command.program in _PROGRAMS:
        message = f"{command.program}: {_PROGRAMS[command.program]}"
        raise LaunchFormatError(message, where=command.where, field="launcher")
    match = None if command is None else _SCRIPT.fullmatch(command.program)
    if match is None or command is None:
        return
    message = (
        f"{command.program} trains by {_STEMS[match[1]]}, which has no model here; trl_sft, "
        "trl_dpo, trl_kto, trl_reward and trl_grpo have: say launcher where it is one of these"
    )
    raise LaunchFormatError(message, where=command.where, field="launcher")


def refuse_recipes(handed_in: HandedIn) -> None:
    """Refuse a script that builds a recipe of NeMo.

    Raises LaunchFormatError, which names what is read in its place.
    """
    for name, text in handed_in.scripts.items():
        match = _RECIPES.search(text) if name.endswith(".py") else None
        if match is not None:
            message = (
                f"builds its recipe by {match[1]}, in Python that is not run here; hand in its "
                "configuration as YAML, or ask by fields: model, layout, batch and length"
            )
            raise LaunchFormatError(message, where=name, field="launcher")


def refuse_preferences(handed_in: HandedIn) -> None:
    """Refuse arguments of preferences read as plain training.

    Raises LaunchFormatError, which asks for the trainer.
    """
    command = handed_in.command
    argv = read_argv(command.arguments if command else (), where="command")
    for source in (argv, handed_in.arguments, *handed_in.documents.values()):
        for name in _OTHERS:
            setting = source.peek(name)
            if setting is not None:
                message = (
                    f"{setting.key} is an argument of TRL's trainers of preferences and policies, "
                    "which hold more than plain training; say launcher: one of trl_dpo, trl_kto, "
                    "trl_grpo, or trainer or trl_sft where the script has it for itself"
                )
                raise LaunchFormatError(message, where=setting.where, field="launcher")


def refuse_strangers(
    program: str, launcher: str, known: Sequence[str], left: Sequence[str]
) -> None:
    """Refuse a program most of whose options are another's.

    Raises LaunchFormatError, which asks for the launcher.
    """
    if len(left) <= len(known):
        return
    examples = ", ".join(left[:4])
    message = (
        f"{program}: {len(left)} of its {len(left) + len(known)} options are none of {launcher}'s, "
        f"such as {examples}: which launcher is this? say launcher: {launcher} where it is"
    )
    raise LaunchFormatError(message, field="launcher")
