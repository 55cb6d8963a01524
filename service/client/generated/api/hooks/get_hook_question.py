"""Return a question that a hook answered."""

from urllib.parse import quote

import httpx

from ...models.hook_question_answer import HookQuestionAnswer
from ...types import Call


def call(
    digest: str,
) -> Call[HookQuestionAnswer]:
    """Return a question that a hook answered."""

    return Call(
        method="GET",
        path="/v1/hooks/questions/{digest}".format(
            digest=quote(str(digest), safe=""),
        ),
        params={},
        headers={},
        body=None,
        read=_read,
    )


def _read(response: httpx.Response) -> HookQuestionAnswer:
    if response.status_code == 200:
        response_200 = HookQuestionAnswer.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)
