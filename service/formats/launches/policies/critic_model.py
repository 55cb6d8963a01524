"""Model of a critic, as a launch names it."""

from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.settings import Setting

MODEL_FIELD = "workload.critic.model"


def put_critic_model(
    handed_in: HandedIn, draft: Draft, name: Setting | None, policy: Setting | None
) -> None:
    """Set a critic's model where it is another than the policy's.

    One that nobody here knows is asked for, and counted as the policy's meanwhile.
    """
    if name is None:
        why = "the launch names no critic; meanwhile it is as large as the policy"
        draft.ask(MODEL_FIELD, why, is_assumed=True)
        return
    text = name.as_text()
    if policy is not None and text == policy.as_text():
        draft.note(name, "the critic is as large as the policy")
    elif handed_in.launch.find_checkpoint(text) is None:
        why = f"{name.key} {text!r} is not known; meanwhile it is as large as the policy"
        draft.note(name, "the critic's model")
        draft.ask(MODEL_FIELD, why, is_assumed=True)
    else:
        draft.put(MODEL_FIELD, text, name)
