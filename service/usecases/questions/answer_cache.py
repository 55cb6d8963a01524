"""In-process cache of finished answers, bounded by bytes."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

MAX_BYTES = 32 * 2**20
"""Some 5,000 answers in full."""
MAX_SEARCH_BYTES = MAX_BYTES // 2
"""Some 2,600 answers to how-many questions in full."""
OVERHEAD_BYTES = 400
"""What Python keeps beside the bytes of one answer, as tracemalloc counts it: three objects of
bytes and text, the answer's own, its place in the order.
"""
_MAX_SHARE = 8
"""An answer beyond this part of all bytes is not kept: it would displace too many others."""
MAX_ASKED = 8192
"""Questions of which is remembered, twice over, that they were asked once."""
_ETAG_CHARS = 32

GetModelVersion = Callable[[str], str | None]
Key = bytes | str
"""Question that an answer is found by: its bytes, or the digest of all that it means. A body that
somebody sends is never taken for a digest.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedAnswer:
    """Encoded answer, and the model revision that it rests on.

    ``counted_as`` is a fit's verdict, or what a search asks for. ``model`` is ``None`` where the
    question itself says everything of its model.
    """

    body: bytes
    etag: str
    counted_as: str
    model: str | None = None
    model_version: str | None = None


class AnswerCache:
    """Finished answers by their questions.

    The least recently used are dropped first. An answer holds while its model has the same version
    and the same calibrations are known. Who asks reads both from the process's own caches, so that
    no answer outlives what those know.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        """Start empty; to be used by one thread."""
        self._max_bytes = max_bytes
        self._answers: OrderedDict[Key, FinishedAnswer] = OrderedDict()
        self._calibrations = -1
        self._asked: set[int] = set()
        self._asked_before: set[int] = set()
        self.num_bytes = 0

    def find(
        self, question: Key, *, calibrations: int, get_model_version: GetModelVersion
    ) -> FinishedAnswer | None:
        """Return the answer to a question, if it still holds.

        ``calibrations`` is the version of what was learnt.
        """
        if calibrations != self._calibrations:
            self._clear(calibrations)
        answer = self._answers.get(question)
        if answer is None:
            return None
        if answer.model is not None and get_model_version(answer.model) != answer.model_version:
            self._drop(question)
            return None
        self._answers.move_to_end(question)
        return answer

    def store(
        self,
        question: Key,
        answer: FinishedAnswer,
        *,
        calibrations: int,
        is_costly: bool = False,
    ) -> None:
        """Keep an answer once its question is asked again.

        A costly one is kept at once.

        ``calibrations`` is to be read before the work begins: what is learnt meanwhile may be in
        the answer or not.
        """
        size = _count_bytes(question, answer)
        if calibrations != self._calibrations or size * _MAX_SHARE > self._max_bytes:
            return
        if not self._was_asked(hash(question)) and not is_costly:
            return
        self._drop(question)
        self._answers[question] = answer
        self.num_bytes += size
        while self.num_bytes > self._max_bytes:
            self._drop(next(iter(self._answers)))

    def _was_asked(self, question: int) -> bool:
        """Return whether a question was asked lately, and remember it.

        A sweep asks each question once: its answers would displace those that somebody repeats.
        """
        if question in self._asked or question in self._asked_before:
            return True
        if len(self._asked) >= MAX_ASKED:
            self._asked_before, self._asked = self._asked, set()
        self._asked.add(question)
        return False

    def _drop(self, question: Key) -> None:
        answer = self._answers.pop(question, None)
        if answer is not None:
            self.num_bytes -= _count_bytes(question, answer)

    def _clear(self, calibrations: int) -> None:
        self._calibrations = calibrations
        self._answers.clear()
        self.num_bytes = 0


def build_etag(body: bytes) -> str:
    """Return the entity tag of an answer.

    The same bytes have the same tag on every server.
    """
    return sha256(body).hexdigest()[:_ETAG_CHARS]


def _count_bytes(question: Key, answer: FinishedAnswer) -> int:
    return len(question) + len(answer.body) + OVERHEAD_BYTES
