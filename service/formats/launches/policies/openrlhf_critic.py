"""Critic of OpenRLHF, in a process of its own.

(OpenRLHF 0.11, ``openrlhf/cli/train_ppo_ray.py``, ``openrlhf/trainer/ray/ppo_critic.py``.)
"""

from collections.abc import Callable

from service.formats.launches.policies.critic_model import put_critic_model
from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.trainers.unmodelled_trainers import CRITIC_APART
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.settings import Setting, Settings

_WITH_CRITIC = "gae"
_FIELD = "workload.critic"
Take = Callable[[Settings, str, object], Setting]


def read_critic(handed_in: HandedIn, settings: Settings, draft: Draft, take: Take) -> None:
    """Set the critic where it shares the policy's GPUs.

    Raises LaunchFormatError where both are updated at once, which they are unless DeepSpeed sleeps
    (``openrlhf/trainer/ppo_trainer.py``, ``ppo_train``).
    """
    estimator = take(settings, "algo.advantage.estimator", _WITH_CRITIC)
    if estimator.as_text() != _WITH_CRITIC:
        draft.note(estimator, "advantages without a critic")
        return
    draft.note(estimator, "advantages with a critic")
    everything = settings.peek("train.colocate_all")
    if everything is None or not everything.as_bool():
        draft.warn(f"without train.colocate_all the critic has GPUs of its own: {CRITIC_APART}")
        return
    sleeps = settings.peek("ds.enable_sleep")
    if sleeps is None or not sleeps.as_bool():
        raise estimator.refuse(
            "ds.enable_sleep beside it: without that, a critic and a policy on the same GPUs are "
            f"updated at the same time, which has no term; or {CRITIC_APART}"
        )
    policy = settings.peek("actor.model_name_or_path")
    name = settings.take("critic.model_name_or_path") or _get_first_reward(settings) or policy
    put_critic_model(handed_in, draft, name, policy)
    adapts = settings.peek("ds.lora.rank")
    draft.put(f"{_FIELD}.adapters", adapts is not None and adapts.as_int() > 0)
    draft.put(f"{_FIELD}.offload_optimizer", value=True)
    draft.put(f"{_FIELD}.own_process", value=True)
    optimizer, policys = settings.take("critic.optim"), settings.peek("actor.optim")
    if optimizer is not None and optimizer.value != ("adam" if policys is None else policys.value):
        draft.ignore(optimizer, "the critic is counted with the policy's optimizer")
    elif optimizer is not None:
        draft.note(optimizer, "as the policy's")


def _get_first_reward(settings: Settings) -> Setting | None:
    """Return the reward model that a critic begins from, if any."""
    reward, served = settings.peek("reward.model_name_or_path"), settings.peek("reward.remote_url")
    if reward is None or served is not None:
        return None
    first = str(reward.value).partition(",")[0]
    return Setting(key=reward.key, value=first, where=reward.where)
