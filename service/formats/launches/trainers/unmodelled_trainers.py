"""Scripts that train in ways without a model here."""

import re

from service.formats.launches.sources.commands import Command
from service.formats.launches.values.errors import LaunchFormatError

_STEMS = {
    **{stem: stem.upper() for stem in ("orpo", "cpo", "bco", "ppo", "rloo", "gkd", "xpo")},
    **{stem: stem.upper() for stem in ("prm", "tpo", "gold", "sdft", "sdpo", "ssd", "mpo")},
    "async_grpo": "asynchronous GRPO",
    "nash_md": "Nash-MD",
    "online_dpo": "online DPO",
    "distillation": "distillation",
}
_SCRIPT = re.compile(
    rf"(?:trl )?({'|'.join(sorted(_STEMS, key=len, reverse=True))})(?:_\w+)?(?:\.py)?"
)
"""TRL's own scripts and commands (TRL 1.16, ``trl/scripts`` and ``examples/scripts``)."""


def refuse_unmodelled(command: Command | None) -> None:
    """Refuse a script that is named for a trainer without a model.

    Raises LaunchFormatError, which names those that have one.
    """
    match = None if command is None else _SCRIPT.fullmatch(command.program)
    if match is None or command is None:
        return
    message = (
        f"{command.program} trains by {_STEMS[match[1]]}, which has no model here; trl_sft, "
        "trl_dpo, trl_kto, trl_reward and trl_grpo have: say launcher where it is one of these"
    )
    raise LaunchFormatError(message, where=command.where, field="launcher")
