"""The generated part of the client is what the generator makes of the OpenAPI document now."""

from pathlib import Path

from deploy.client.generating import TARGET, contents, generate


def test_it_is_not_stale(tmp_path: Path) -> None:
    """Whoever changes a route or a schema runs `python -m deploy.client --write`; the same document gives the same text."""
    made, kept = contents(generate(tmp_path)), contents(TARGET)

    assert sorted(name for name in made.keys() | kept.keys() if made.get(name) != kept.get(name)) == []
