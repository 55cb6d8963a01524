"""Files that commands read."""

import json
from pathlib import Path

import pytest

from service.cli.model_files.json_files import read_config


@pytest.mark.parametrize("own", [{}, {"quantization_config": {"quant_method": "fp8"}}])
def test_modelopts_file_beside_a_config_counts(tmp_path: Path, own: dict[str, object]) -> None:
    """Older checkpoints of ModelOpt have their quantisation in ``hf_quant_config.json`` alone; a
    config's own decides.
    """
    beside = {"quantization": {"quant_algo": "NVFP4"}}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"} | own))
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(beside))

    config = read_config(tmp_path / "config.json")

    assert config == {"model_type": "llama", "quantization_config": beside} | own
