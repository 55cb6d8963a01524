"""The page of public launches, and the manifest that it counts."""

import re

from tests.corpus.commands import list_documented_commands, list_served_commands
from tests.corpus.manifest import MANIFEST, read_manifest
from tests.corpus.outcomes import shorten_reason
from tests.corpus.page import PAGE


def test_the_page_counts_the_manifest() -> None:
    """It is written anew where the manifest has changed."""
    entries = list(read_manifest(MANIFEST.read_text(encoding="utf-8")))

    match = re.search(r"\(([\d,]+) of (\d+) projects", PAGE.read_text(encoding="utf-8"))

    assert match is not None
    counts = (len(entries), len({entry.repository for entry in entries}))
    assert (int(match[1].replace(",", "")), int(match[2])) == counts
    assert counts > (300, 6)


def test_a_manifest_names_each_launch() -> None:
    """Files of one launch are joined; a number is a documented command."""
    text = "a/b@012345678\n  x.yaml+ds.json\n  y.py#2\n"

    entries = list(read_manifest(text))

    assert [entry.paths for entry in entries] == [("x.yaml", "ds.json"), ("y.py",)]
    assert entries[1].place == "a/b@01234567:y.py#2"


def test_a_documented_command_is_joined() -> None:
    """Its continued lines are one command; a sentence is none."""
    text = '"""\npython is fine\n```\npython a.py \\\n    --x 1\n```\n"""\n# trl sft --y 2\n'

    commands = list_documented_commands(text)

    assert commands == ["python a.py --x 1", "trl sft --y 2"]


def test_a_page_of_an_engine_documents_its_commands() -> None:
    """Variables before a command are a part of it; what starts no engine is none."""
    text = "```bash\npip install --upgrade vllm\nA=1 vllm serve a/b \\\n  --tp 2\n```\n"

    commands = list_served_commands(text)

    assert commands == ["A=1 vllm serve a/b --tp 2"]


def test_a_reason_has_no_place() -> None:
    """Refusals of the same kind are counted together."""
    reasons = {
        shorten_reason("examples/a.yaml:6: rl is 'kto'; expected one of dpo"),
        shorten_reason("b/c.yml:17: rl is 'kto'; expected one of dpo"),
    }

    assert reasons == {"rl is 'kto'"}
