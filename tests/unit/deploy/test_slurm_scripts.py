"""Scripts that Slurm runs: a slip in their settings, and what a job leaves for them."""

import base64
import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from service.formats.measured.detect import parse

KIT = Path(__file__).parents[3] / "deploy" / "slurm"
SHELLS = [path for name in ("dash", "bash") if (path := shutil.which(name))]
LUA = next((path for name in ("lua5.4", "lua5.3", "lua") if (path := shutil.which(name))), None)
CURL = """\
#!/bin/sh
for word in "$@"; do
  case $word in @*) cp "${word#@}" "$(dirname "$0")/sent" ;; esac
done
"""
NVIDIA_SMI = """\
#!/bin/sh
case "$*" in
  "-i 1 -caa") exit 1 ;;
  "-i "?" -am 1" | "-i 0 -caa") ;;
  "-i 0 --query-accounted-apps=gpu_uuid,max_memory_usage --format=csv,noheader,nounits")
    printf 'GPU-00-0, 12\\nGPU-00-0, 4989\\nGPU-00-0, [N/A]\\nno uuid, 99999\\n' ;;
  *) echo "$*" > "$(dirname "$0")/unexpected"; exit 1 ;;
esac
"""
"""One whose second GPU keeps what it counted of an earlier job."""
SLURM = """\
slurm = {SUCCESS = 0, ERROR = -1, log_info = print, log_error = print}
function slurm.json_cli_options() return "{}" end
dofile(arg[1])
slurm_cli_pre_submit({type = "sbatch", argv = {arg[2]}}, 0)
"""
LUA_CURL = """\
#!/bin/sh
at=$(dirname "$0")
cp "$3" "$at/config"
cp "$(sed -n 's/^data-binary = "@\\(.*\\)"$/\\1/p' "$3")" "$at/sent"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node of one job, with a ``curl`` that keeps what it would send."""

    root: Path
    program: str

    @property
    def stats(self) -> Path:
        """Folder in which the job leaves its statistics."""
        return self.root / "my run" / "7"

    def write(self, more: str = "") -> None:
        """Write the two files of settings, values in quotes."""
        (self.root / "node.conf").write_text(
            f'HEADROOM_URL="http://127.0.0.1:1"\nHEADROOM_PATH = "{self.root}"\n{more}'
        )
        (self.root / "all.conf").write_text(f'HEADROOM_RUN="{self.root}/my run" \n{more}')
        curl = self.root / "curl"
        curl.write_text(CURL)
        curl.chmod(0o755)

    def start(
        self, script: str, gpus: str = "0", **limits: int
    ) -> subprocess.CompletedProcess[str]:
        """Run a script by this node's shell, with other limits than its own."""
        text = (KIT / script).read_text().replace("#!/bin/sh", f"#!{self.program}", 1)
        for name, limit in limits.items():
            text = re.sub(rf"^{name}=.*$", f"{name}={limit}", text, flags=re.MULTILINE)
        path = self.root / script
        path.write_text(text)
        path.chmod(0o755)
        return subprocess.run(
            [str(path)],
            env={
                "HEADROOM_NODE_CONF": str(self.root / "node.conf"),
                "HEADROOM_CONF": str(self.root / "all.conf"),
                "SLURM_JOB_ID": "7",
                "SLURM_JOB_UID": str(os.getuid()),
                "SLURM_JOB_GPUS": gpus,
                "SLURM_JOB_COMMENT": "headroom-question=" + "0" * 32,
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def read_sent(self) -> str:
        """Return the report that was sent."""
        body = json.loads((self.root / "sent").read_text())
        return base64.b64decode(body["content_base64"]).decode()


@pytest.fixture(name="node", params=SHELLS)
def make_node(request: pytest.FixtureRequest, tmp_path: Path) -> Node:
    """Return a node with each shell that is here."""
    node = Node(root=tmp_path, program=request.param)
    node.write()
    return node


@pytest.mark.parametrize("script", ["headroom-prolog", "headroom-task-prolog", "headroom-epilog"])
@pytest.mark.parametrize("slip", ['X="', "X='", "X=$(", "exit 1", "}", ". /nowhere"])
def test_a_slip_in_the_settings_drains_no_node(tmp_path: Path, script: str, slip: str) -> None:
    """Slurm drains one whose Prolog or Epilog ends with another number than 0."""
    node = Node(root=tmp_path, program="/bin/sh")
    node.write(f"{slip}\n")

    done = node.start(script)

    assert (done.returncode, done.stderr) == (0, "")


def test_quotes_are_none_of_a_folders_name(node: Node) -> None:
    """All three scripts mean the same folder."""
    begun, named = node.start("headroom-prolog"), node.start("headroom-task-prolog")
    is_made = node.stats.is_dir()
    ended = node.start("headroom-epilog")

    assert [done.returncode for done in (begun, named, ended)] == [0, 0, 0]
    assert named.stdout == f"export HEADROOM_STATS={node.stats}\n"
    assert is_made
    assert list(node.stats.parent.iterdir()) == []
    assert not [path for path in node.root.iterdir() if '"' in path.name]


def test_pipes_and_links_of_a_job_are_left_alone(node: Node) -> None:
    """Opening a pipe would wait for its writer, and a link may lead anywhere."""
    node.start("headroom-prolog")
    for rank in range(5):
        os.mkfifo(node.stats / f"rank-{rank}.json")
    (node.root / "secret").write_text("secret")
    (node.stats / "rank-5.json").symlink_to(node.root / "secret")
    (node.stats / "rank-6.json").write_text('{"rank": 6}')

    done = node.start("headroom-epilog")

    assert done.returncode == 0
    assert node.read_sent().partition("[rank]")[2] == '\n{"rank": 6}\n'


def test_a_job_does_not_say_how_much_is_read(node: Node) -> None:
    """So many files, and so many bytes of all of them."""
    node.start("headroom-prolog")
    for rank in range(9):
        (node.stats / f"rank-{rank}.json").write_text("1" * 100_000)

    node.start("headroom-epilog", MAX_FILES=2)
    files = node.read_sent().count("[rank]")
    node.start("headroom-prolog")
    (node.stats / "rank-0.json").write_text("1" * 100_000)
    node.start("headroom-epilog", MAX_BYTES=1000)

    assert files == 2
    assert len(node.read_sent().partition("[rank]")[2]) < 1000


def test_the_driver_tells_peaks_where_dcgm_is_missing(node: Node) -> None:
    """Of GPUs on which nothing of an earlier job was counted: the largest process on each."""
    smi = node.root / "nvidia-smi"
    smi.write_text(NVIDIA_SMI)
    smi.chmod(0o755)
    node.write("HEADROOM_ACCOUNTING=yes\n")

    node.start("headroom-prolog", gpus="0,1")
    node.start("headroom-epilog", gpus="0,1")

    parsed = parse(node.read_sent().encode())
    assert {(each.place.gpu_uuid, each.low, each.high) for each in parsed.readings} == {
        ("GPU-00-0", 4989 * 2**20, None)
    }
    assert not (node.root / "unexpected").exists()
    assert list(node.stats.parent.iterdir()) == []


@pytest.mark.parametrize("setting", ["", "HEADROOM_ACCOUNTING=no\n"])
def test_accounting_is_turned_on_for_nobody_who_does_not_want_it(node: Node, setting: str) -> None:
    """It is a setting of the GPU, and outlives the job."""
    smi = node.root / "nvidia-smi"
    smi.write_text('#!/bin/sh\ntouch "$(dirname "$0")/called"\n')
    smi.chmod(0o755)
    node.write(setting)

    node.start("headroom-prolog")
    node.start("headroom-epilog")

    assert not (node.root / "called").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file to somebody else")
def test_files_of_others_are_none_of_the_job(node: Node) -> None:
    """A hard link to one of them looks like a file."""
    node.start("headroom-prolog")
    path = node.stats / "rank-0.json"
    path.write_text("secret")
    os.chown(path, 12345, 12345)

    node.start("headroom-epilog")

    assert "[rank]" not in node.read_sent()


@pytest.mark.skipif(LUA is None, reason="Lua is not installed")
@pytest.mark.parametrize(
    ("timeout_s", "expected"),
    [("0", "5"), ("-1", "5"), ("0.0001", "5"), ("x", "5"), ("1e999", "5"), ("0.5", "0.5")],
)
def test_a_submission_waits_for_no_pipe_nor_for_ever(
    tmp_path: Path, timeout_s: str, expected: str
) -> None:
    """The filter asks without a script that sbatch has read to its end, and with a limit."""
    sent, config = submit(tmp_path, "it's $(touch pwned)", timeout_s)
    os.mkfifo(tmp_path / "pipe")
    sent_of_pipe, _ = submit(tmp_path, "pipe", timeout_s)

    assert json.loads(sent)["script"] == "#HEADROOM gpt2\n"
    assert f"max-time = {expected}\n" in config
    assert "script" not in json.loads(sent_of_pipe)
    assert not (tmp_path / "pwned").exists()


def submit(root: Path, script: str, timeout_s: str) -> tuple[str, str]:
    """Return what cli_filter.lua sends about a script, and its options of curl."""
    (root / "it's $(touch pwned)").write_text("#HEADROOM gpt2\n")
    (root / "slurm.lua").write_text(SLURM)
    curl = root / "curl"
    curl.write_text(LUA_CURL)
    curl.chmod(0o755)
    subprocess.run(
        [str(LUA), "slurm.lua", str(KIT / "cli_filter.lua"), script],
        cwd=root,
        env={
            "PATH": f"{root}:{os.environ['PATH']}",
            "HEADROOM_URL": "http://127.0.0.1:1",
            "HEADROOM_TIMEOUT_S": timeout_s,
        },
        timeout=60,
        check=True,
    )
    return (root / "sent").read_text(), (root / "config").read_text()
