"""A probe that does what the request's script says: ``python -m tests.fake_probe``.

Steps: ``{"say": {"phase": …, "fraction": …}}``, ``{"sample": bytes}``, ``{"touch": path}`` (the
file then holds the process id), ``{"wait_for": path}``, ``{"raw": text}``, ``{"stderr": text}``,
``{"fail": message}``, ``{"exit": status}``, ``{"child": path}`` (starts a process that outlives a
probe that does not care, its id in the file), ``{"deaf": true}`` (ignores SIGTERM), ``{"keep":
text}`` (in every file that was asked for), ``{"misreport": bytes}`` (says that much more than it
kept). After the last step it answers.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from msgspec import structs

from service.jobs.codec import decode_request, encode_line
from service.jobs.contract import FailureKind, ProbeFailure, ProbeLine, Progress, Sample
from tests.job_builders import a_result
from worker.probes.artifacts import ArtifactWriter

Step = dict[str, object]


def main() -> int:
    """Play the script."""
    request = decode_request(sys.stdin.buffer.read())
    script = (request.model.hf_config or {}).get("script", [])
    assert isinstance(script, list)
    artifacts, surplus = ArtifactWriter(files=request.files), 0
    for number, step in enumerate(script):
        match step:
            case {"keep": str() as text}:
                for name in request.files:
                    artifacts.make_saver(name)(text)  # type: ignore[misc]  # it was asked for
            case {"misreport": int() as surplus}:
                pass
            case _:
                status = _play(step, number=number, total=len(script))
                if status is not None:
                    return status
    files = tuple(
        structs.replace(file, packed_bytes=file.packed_bytes + surplus) for file in artifacts.saved
    )
    _write(structs.replace(a_result(), files=files))
    return 0


def _play(step: Step, *, number: int, total: int) -> int | None:
    match step:
        case {"say": dict() as progress}:
            _write(
                Progress(
                    phase=str(progress["phase"]),
                    done=number,
                    total=total,
                    fraction=float(progress["fraction"]),
                ),
            )
        case {"sample": int() as size}:
            _write(Sample(t_s=float(number), kind="process_rss", bytes=size))
        case {"touch": str() as path}:
            # Whoever waits for the file reads a whole number from it.
            Path(f"{path}.new").write_text(str(os.getpid()))
            Path(f"{path}.new").rename(path)
        case {"wait_for": str() as path}:
            while not Path(path).exists():
                time.sleep(0.01)
        case {"child": str() as path}:
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            Path(f"{path}.new").write_text(str(child.pid))
            Path(f"{path}.new").rename(path)
        case _:
            return _play_rude(step)
    return None


def _play_rude(step: Step) -> int | None:
    match step:
        case {"raw": str() as text}:
            sys.stdout.write(text)
            sys.stdout.flush()
        case {"stderr": str() as text}:
            sys.stderr.write(text)
            sys.stderr.flush()
        case {"deaf": True}:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        case {"fail": str() as message}:
            _write(ProbeFailure(kind=FailureKind.UNSUPPORTED, message=message))
            return 0
        case {"exit": int() as status}:
            return status
        case _:
            sys.exit(f"a step that this probe does not know: {step}")
    return None


def _write(line: ProbeLine) -> None:
    sys.stdout.buffer.write(encode_line(line))
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main())
