"""Keyword arguments of scripts with TRL's RLOOTrainer.

Its step has GRPO's phases and tensors: what it makes of rewards is numbers (TRL 1.16,
``trl/trainer/rloo_trainer.py``, ``_compute_loss``). Names and defaults are those of
``trl/trainer/rloo_config.py``, where beta, and with it a reference, is on.
"""

from service.formats.launches.policies.trl_grpo import FLAGS, Policy, read_policy
from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.sources.reader import Reader
from service.formats.launches.trainers.setup import PEFT, TRANSFORMERS, TRL, Client
from service.formats.launches.trainers.trainer import gather_arguments
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.launch import Launcher

_RLOO = Policy(
    client=Client.RLOO,
    config="rloo_config.py",
    penalty=0.05,
    without_effect=("normalize_advantages", "reward_clip_range*"),
)
_FLAGS = FLAGS | {"normalize_advantages"}
_OF_OLDER = ("rloo_k", "kl_coef", "num_ppo_epochs", "local_rollout_forward_batch_size")
"""Arguments of the trainer that had this name before TRL 0.22, whose step is another."""


def read_rloo(handed_in: HandedIn, draft: Draft) -> None:
    """Read the arguments of a script with RLOOTrainer.

    Raises LaunchFormatError for those of a release before 0.22.
    """
    training = gather_arguments(handed_in, _FLAGS)
    for name in _OF_OLDER:
        older = training.peek(name)
        if older is not None:
            raise older.refuse(
                "an argument of RLOOConfig since TRL 0.22 (num_generations, beta, …): before that "
                "RLOOTrainer held a reward model and logits of whole batches, which have no term"
            )
    read_policy(_RLOO, training, handed_in, draft)


READERS = {
    Launcher.TRL_RLOO: Reader(
        launcher=Launcher.TRL_RLOO,
        versions={"transformers": TRANSFORMERS, "peft": PEFT, "trl": TRL},
        read=read_rloo,
        programs=frozenset({"rloo.py", "rloo_*.py", "trl rloo", "*_rloo.py"}),
        marks=frozenset({"normalize_advantages", "reward_clip_range", *_OF_OLDER[:1]}),
    )
}
