"""Lengths of prompts and completions of policies.

Their trainers give the length of completions alone, or that of both.
"""

from service.formats.launches.values.draft import Draft
from service.formats.launches.values.settings import Setting


def put_lengths(
    draft: Draft,
    completion: Setting,
    *,
    prompt: Setting | None,
    longest: Setting | None,
    unsaid: str,
) -> None:
    """Set the tokens of a completion and of a sequence.

    Without a ``prompt`` a sequence is as long as its engine takes, ``longest``; without either it
    is asked for, as ``unsaid`` tells.
    """
    generated = completion.as_int(minimum=1)
    draft.put("workload.completion_length", generated, completion)
    if prompt is not None:
        length = prompt.as_int(minimum=1) + generated
        draft.put("workload.sequence_length", length, prompt)
    elif longest is not None and longest.as_int(minimum=1) > generated:
        draft.put("workload.sequence_length", longest.as_int(minimum=1), longest)
    else:
        why = f"{unsaid}: say those of the longest one and {completion.key} {generated} together"
        draft.ask("workload.sequence_length", why)
