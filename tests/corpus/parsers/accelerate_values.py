"""Values of accelerate's files by its own launcher, in an environment that has it.

Files come as JSON by name on stdin, values (or why there are none) leave so on stdout.
"""

import json
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

KEYS = (
    *("num_processes", "num_machines", "mixed_precision", "use_deepspeed", "use_fsdp"),
    *("fsdp_version", "fsdp_reshard_after_forward", "fsdp_sharding_strategy"),
    *("fsdp_offload_params", "fsdp_activation_checkpointing", "zero_stage"),
    *("offload_optimizer_device", "offload_param_device", "gradient_accumulation_steps"),
    *("parallelism_config_dp_replicate_size", "parallelism_config_dp_shard_size"),
    *("parallelism_config_tp_size", "parallelism_config_cp_size", "deepspeed_config_file"),
)


def read_values(text: str) -> dict[str, Any]:
    """Return the values that accelerate launches with."""
    launch: Any = import_module("accelerate.commands.launch")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "config.yaml")
        path.write_text(text, encoding="utf-8")
        arguments = launch.launch_command_parser().parse_args(
            ["--config_file", str(path), "train.py"]
        )
        checked, *_ = launch._validate_launch_command(arguments)  # noqa: SLF001 - its own door
    values = {key: getattr(checked, key, None) for key in KEYS}
    return {key: value for key, value in values.items() if value is not None}


def main() -> None:
    """Read files from stdin, and print their values."""
    results: dict[str, object] = {}
    output, sys.stdout = sys.stdout, sys.stderr
    for name, text in json.load(sys.stdin).items():
        try:
            results[name] = read_values(text)
        except BaseException as error:  # noqa: BLE001 - the launcher's refusal is a result
            results[name] = {"error": f"{type(error).__name__}: {error}"[:500]}
    output.write(json.dumps(results, default=str))


if __name__ == "__main__":
    main()
