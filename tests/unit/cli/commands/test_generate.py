"""``headroom generate`` and ``headroom pipelines``, in this process."""

import json
from pathlib import Path

import pytest

from service.__main__ import main
from service.catalog.pipelines.shipped import load_pipeline

_CALL = ("--gpu", "RTX-4090", "--height", "1024", "--width", "1024", "--offline")


def test_the_verdict_is_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    """All of FLUX does not fit in 24 GB; with its blocks on the host it does."""
    codes = [
        main(["generate", "flux.1-dev", *_CALL, *words])
        for words in ((), ("--offloading", "group"))
    ]

    printed = capsys.readouterr().out
    assert codes == [1, 0]
    assert "transformer_weights" in printed


def test_a_folder_of_configs_is_a_pipeline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """model_index.json and the configs beside it are read as diffusers saves them."""
    pipeline = load_pipeline("stable-diffusion-1.5")
    index: dict[str, object] = {"_class_name": pipeline.class_name}
    for name, part in pipeline.components.items():
        index[name] = [part.library, part.class_name]
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(part.config))
    (tmp_path / "model_index.json").write_text(json.dumps(index))

    code = main(["generate", str(tmp_path), *_CALL, "--json"])

    answer = json.loads(capsys.readouterr().out)
    assert (code, answer["verdict"]) == (0, "fits")
    assert "pipeline: its configs are those of stable-diffusion-1.5" in answer["assumptions"]


def test_pipelines_are_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """The list has all; one has its components."""
    codes = [main(["pipelines", "--offline"]), main(["pipelines", "qwen-image", "--offline"])]

    printed = capsys.readouterr().out
    assert codes == [0, 0]
    assert "20,430,401,088" in printed
    assert "wan2.2-t2v-a14b" in printed


@pytest.mark.parametrize("data", [b"\x1f\x8bcut", b"[" * 100_000], ids=["gzip", "nested"])
def test_a_broken_recording_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], data: bytes
) -> None:
    """A file that was cut, or is nested beyond reading, is told and no traceback."""
    file = tmp_path / "broken.json.gz"
    file.write_bytes(data)

    code = main(["generate", "--recording", str(file), *_CALL])

    printed = capsys.readouterr().err
    assert code == 2
    assert "broken.json.gz" in printed
    assert "nobody expected" not in printed
