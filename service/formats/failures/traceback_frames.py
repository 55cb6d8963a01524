"""Frames of a Python traceback, by rank, as logs print them.

CPython's own form, with the prefixes of launchers and engines before it; IPython's two; rich's.
"""

from collections import deque

from service.formats.failures.failure import Frame
from service.formats.failures.wording import compile_wording

MAX_FRAMES = 200
MAX_RANKS = 256
MAX_CODE = 200
MAX_DISTANCE = 40
"""Lines between a traceback's last frame and the words that it ends with."""
BEGIN = "Traceback (most recent call last)"
MARKS = ('File "', "File /", ".py:", ".py in ", BEGIN)
_CPYTHON = compile_wording(
    r'File "([^"\n]{1,500}+)", line [0-9]{1,9}+, in ([A-Za-z0-9_<>.]{1,200}+)'
)
_IPYTHON = compile_wording(r"File (/[^ :\n]{1,500}+):[0-9]{1,9}+, in ([A-Za-z0-9_<>.]{1,200}+)")
_NOTEBOOK = compile_wording(r"^(/[^ :\n]{1,500}+) in ([A-Za-z0-9_<>.]{1,200}+)\(")
_RICH = compile_wording(
    r"^[│|] ((?:[A-Za-z]:)?+[^ :\n]{1,500}+):[0-9]{1,9}+ in ([A-Za-z0-9_<>.]{1,200}+)"
)
_RANK = compile_wording(
    r"\[(?:default)?+rank([0-9]{1,5}+)\]|\brank=([0-9]{1,5}+)|\bTP([0-9]{1,4}+)\b"
)
_PROCESS = compile_wording(
    r"\(((?:EngineCore|Worker|RayWorker|VllmWorker|LLMRayActor|ModelRunner)[^()\n]{0,60}+)\)"
)
_PREFIX = 200


def find_rank(text: str) -> str | None:
    """Return the rank or process that a line names at its beginning."""
    prefix = text[:_PREFIX]
    match = _RANK.search(prefix) or _PROCESS.search(prefix)
    return None if match is None else next(part for part in match.groups() if part)


class FrameReader:
    """Frames of the latest traceback of each rank."""

    def __init__(self) -> None:
        """Start without any."""
        self._frames: dict[str | None, deque[Frame]] = {}
        self._waits_for_code: set[str | None] = set()
        self._last_lines: dict[str | None, int] = {}

    def feed(self, number: int, text: str, rank: str | None) -> None:
        """Read one line of a rank."""
        if BEGIN in text:
            self._frames.pop(rank, None)
            self._waits_for_code.discard(rank)
            return
        frame = _read_frame(text)
        if frame is not None:
            self._last_lines[rank] = number
            self._add(frame, rank)
        elif rank in self._waits_for_code:
            self._add_code(text, rank)

    def waits_for(self, rank: str | None) -> bool:
        """Return whether a rank's next line is its last frame's code."""
        return rank in self._waits_for_code

    @property
    def waits_for_any(self) -> bool:
        """Whether a rank's next line is the code of its last frame."""
        return bool(self._waits_for_code)

    def take(self, number: int, rank: str | None) -> tuple[Frame, ...]:
        """Return a rank's frames before a line, outermost first."""
        if number - self._last_lines.get(rank, number) > MAX_DISTANCE:
            return ()
        return tuple(self._frames.get(rank, ()))

    def _add(self, frame: Frame, rank: str | None) -> None:
        if rank not in self._frames and len(self._frames) >= MAX_RANKS:
            return
        self._frames.setdefault(rank, deque(maxlen=MAX_FRAMES)).append(frame)
        self._waits_for_code.add(rank)

    def _add_code(self, text: str, rank: str | None) -> None:
        self._waits_for_code.discard(rank)
        frames = self._frames[rank]
        last = frames.pop()
        code = text[-MAX_CODE:].strip()
        frames.append(Frame(file=last.file, function=last.function, code=code))


def _read_frame(text: str) -> Frame | None:
    match = _CPYTHON.search(text) if 'File "' in text else None
    if match is None and ("File /" in text):
        match = _IPYTHON.search(text)
    if match is None and " in " in text:
        match = _NOTEBOOK.search(text) or _RICH.search(text)
    if match is None:
        return None
    return Frame(file=match[1].replace("\\", "/"), function=match[2].rpartition(".")[2])
