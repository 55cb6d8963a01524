"""The generated part of the client is what the generator makes of the OpenAPI document now."""

from pathlib import Path

from deploy.release.client.generating import TARGET, generate, read_contents


def test_it_is_not_stale(tmp_path: Path) -> None:
    """After a change of routes `python -m deploy.release.client --write` was run; the same document
    gives the same text.
    """
    made, kept = read_contents(generate(tmp_path)), read_contents(TARGET)

    assert (
        sorted(name for name in made.keys() | kept.keys() if made.get(name) != kept.get(name)) == []
    )
