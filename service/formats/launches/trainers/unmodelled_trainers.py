"""Scripts that train in ways without a model here."""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from service.formats.launches.sources.argv import read_argv
from service.formats.launches.sources.commands import Command
from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.sources.notebooks import is_python
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.settings import Settings, is_unset

_STEMS = {
    **{stem: stem.upper() for stem in ("bco", "ppo", "gkd", "xpo")},
    **{stem: stem.upper() for stem in ("prm", "tpo", "gold", "sdft", "sdpo", "ssd", "mpo")},
    "async_grpo": "asynchronous GRPO",
    "nash_md": "Nash-MD",
    "online_dpo": "online DPO",
    "distillation": "distillation",
}
CRITIC_APART = (
    "ask for the policy without it, and for the critic by itself (fit CRITIC --task train --head "
    "token_classification --num-labels 1, with its batch and layout); on the same GPUs each keeps "
    "its weights and states there during the other's update, unless they are offloaded"
)
"""What to ask in place of a training with a critic."""
_NAMES = "|".join(sorted(_STEMS, key=len, reverse=True))
_SCRIPT = re.compile(rf"(?:trl |run_|train_|finetune_)?({_NAMES})(?:_\w+)?(?:\.py)?")
"""TRL's own scripts and commands (TRL 1.16, ``trl/scripts`` and ``examples/scripts``)."""
_TORCHTUNE = "torchtune's recipes have no reader here"
_COMPONENT = "._component_"
"""How torchtune's files name what they build (``torchtune/config/_instantiate.py``)."""
_PROGRAMS = {
    "tune": _TORCHTUNE,
    "xtuner": "XTuner's configurations have no reader here",
    "ollama": "Ollama sets llama.cpp's options by itself: ask of llama-server -m FILE.gguf, or by "
    "fields with engine llama_cpp",
}
"""Programs of other projects by patterns, and what is to be said of them."""
_RECIPES = re.compile(
    r"^[ \t]*(?:import|from)[ \t]+(nemo_run|nemo\.collections|megatron\.bridge)\b", re.MULTILINE
)
"""Imports of scripts that build NeMo's recipes."""
_ADAPTER = re.compile(r"(?:^|_)(?:q_?lora|lora|peft|adapters?)(?:_|$)")
_BITS = re.compile(r"q_?lora|use_qlora|bits|quant_bits|quantization_bit|load_in_[48]bit|int[48]")
"""Names of scripts' own options that say adapters, and weights of few bits."""
_OFF = frozenset({"false", "no", "off", "16", "32"})
_OTHERS = ("beta", "max_prompt_length", "max_completion_length", "num_generations", "rpo_alpha")
"""Arguments of TRL's trainers of preferences and policies that Trainer and SFTTrainer lack."""


def refuse_unmodelled(command: Command | None) -> None:
    """Refuse a script that is named for a trainer without a model.

    Raises LaunchFormatError, which names those that have one.
    """
    program = "" if command is None else command.program
    why = next((why for name, why in _PROGRAMS.items() if fnmatchcase(program, name)), None)
    if command is not None and why is not None:
        message = f"{command.program}: {why}"
        raise LaunchFormatError(message, where=command.where, field="launcher")
    match = None if command is None else _SCRIPT.fullmatch(command.program)
    if match is None or command is None:
        return
    message = (
        f"{command.program} trains by {_STEMS[match[1]]}, which has no model here; trl_sft, "
        "trl_dpo, trl_kto, trl_orpo, trl_cpo, trl_reward, trl_grpo and trl_rloo have: say launcher "
        "where it is one of these"
    )
    if _STEMS[match[1]] == "PPO":
        models = "It trains a value model, too, and holds a reference and a reward model"
        message = f"{message}. {models}: {CRITIC_APART}"
    raise LaunchFormatError(message, where=command.where, field="launcher")


def refuse_recipes(handed_in: HandedIn) -> None:
    """Refuse a script that builds a recipe of NeMo, and torchtune's files.

    Raises LaunchFormatError, which names what is read in its place.
    """
    for name, document in handed_in.documents.items():
        key = next((key for key in document if key.endswith(_COMPONENT)), None)
        if key is not None:
            message = (
                f"{key} names an object that torchtune builds: {_TORCHTUNE}; ask by fields: "
                "model, layout, method, batch and length"
            )
            raise LaunchFormatError(message, where=name, field="launcher")
    for name, text in handed_in.scripts.items():
        match = _RECIPES.search(text) if is_python(name) else None
        if match is not None:
            message = (
                f"builds its recipe by {match[1]}, in Python that is not run here; hand in its "
                "configuration as YAML, or ask by fields: model, layout, batch and length"
            )
            raise LaunchFormatError(message, where=name, field="launcher")


def refuse_untrained(arguments: Settings) -> None:
    """Refuse arguments by which a script trains nothing.

    Scripts of transformers' own, and LLaMA-Factory's workflows, train where ``do_train`` is on.
    Raises LaunchFormatError.
    """
    train, predict = arguments.peek("do_train"), arguments.peek("do_predict")
    if train is not None and not train.as_bool():
        raise train.refuse("true, since nothing is trained so: ask of generate or of an engine")
    if train is None and predict is not None and predict.as_bool():
        expected = (
            "do_train beside it, since nothing is trained so: ask of generate or of an engine"
        )
        raise predict.refuse(expected)


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
                    "trl_orpo, trl_cpo, trl_grpo, trl_rloo, or trainer or trl_sft where the "
                    "script has it for itself"
                )
                raise LaunchFormatError(message, where=setting.where, field="launcher")


def ask_method(draft: Draft) -> None:
    """Ask what is trained where a script's own options may say it.

    An adapter, or weights of few bits, take a fraction of the memory.
    """
    method = draft.get("workload.method")
    for setting in draft.list_strange():
        name = setting.key.lstrip("-").replace("-", "_").casefold()
        is_off = is_unset(setting) or str(setting.value).casefold() in _OFF
        adapts = method == "full" and _ADAPTER.search(name)
        rounds = method in {"full", "lora"} and _BITS.fullmatch(name)
        if not is_off and (adapts or rounds):
            why = (
                f"{setting.key} {setting.value} ({setting.where}) is none of Trainer's, and may "
                "make it another training: say which by method, and adapters by lora's fields"
            )
            draft.ask("workload.method", why, ("full", "lora", "qlora"))
            return


def refuse_strangers(
    program: str, launcher: str, known: Sequence[str], left: Sequence[str], *, word: str = "options"
) -> None:
    """Refuse a program, or a file, most of whose settings are another's.

    Raises LaunchFormatError, which asks for the launcher.
    """
    if len(left) <= len(known):
        return
    examples = ", ".join(left[:4])
    message = (
        f"{program}: {len(left)} of its {len(left) + len(known)} {word} are none of {launcher}'s, "
        f"such as {examples}: which launcher is this? say launcher: {launcher} where it is"
    )
    raise LaunchFormatError(message, field="launcher")
