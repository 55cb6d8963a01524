"""Counts of the corpus as a page of the documentation."""

from collections.abc import Mapping
from pathlib import Path

from tests.corpus.outcomes import ProjectCounts

PAGE = Path(__file__).parents[2] / "docs" / "launches.md"
_HEAD = """# Public launches

Every launch of [the manifest](../tests/corpus/manifest.txt) ({launches:,} of {projects} projects,
each at its commit) is read by the readers of [launches](howto/ask-with-a-launch.md). None crashes;
what is not read is refused in words. `make corpus CLONES=DIR` counts anew, from clones `owner+name`
in `DIR`.

*Imported* are launches whose question was made. Of their settings, *read* ones decide memory or
time and are in the question, those *without effect* decide neither, *ignored* ones may and are
named; *asked* is what a launch leaves open, such as its model or its GPUs. A program of a project's
own, whose arguments are nobody else's, is no known launcher.

`make parsers PYTHON_OF_PARSERS=PYTHON` compares every value that is used with those of the
launchers' own parsers: axolotl 0.19's schema, LLaMA-Factory 0.9.5's parser, `HfArgumentParser` over
TRL 1.16, accelerate 1.15's launcher and ms-swift 4.6's arguments. Of 217, 59 and 14 files of
axolotl, LLaMA-Factory and accelerate that both read, no value differs; a few files and commands of
each are compared in the suite.

| project | launches | imported | read | without effect | ignored | asked | refused |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
"""
_REFUSALS = """
## Refusals

| project | launches | refusal |
| --- | ---: | --- |
"""


def render_page(counts: Mapping[str, ProjectCounts], commits: Mapping[str, str]) -> str:
    """Return the page of these counts by repository."""
    head = _HEAD.format(launches=sum(one.launches for one in counts.values()), projects=len(counts))
    rows = [
        f"| {name}@{commits[name][:8]} | {one.launches} | {one.imported} | {one.read:,} | "
        f"{one.without_effect:,} | {one.ignored:,} | {one.asked:,} | "
        f"{one.launches - one.imported} |\n"
        for name, one in counts.items()
    ]
    refusals = [
        f"| {name.rpartition('/')[2]} | {number} | {reason} |\n"
        for name, one in counts.items()
        for reason, number in one.refusals.items()
    ]
    return head + "".join(rows) + _REFUSALS + "".join(refusals)
