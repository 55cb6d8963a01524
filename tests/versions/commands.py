"""Commands that a command line of one version gives to a server of another."""

from pathlib import Path

_SAMPLES = Path(__file__).resolve().parents[1] / "unit/formats"
_TRAIN = ("--task", "train", "--sequence-length", "512")
_SERVE = ("--task", "serve", "--num-sequences", "4", "--prompt-tokens", "512")
_NODES, _LOG = "inventories/samples/slurm_26_05_scontrol.json", "measured/samples/vllm_0_19.log"
_LOGGED = (
    *("llama-3.1-8b", "--gpu", "H100-SXM5-80GB", "--task", "serve", "--engine", "vllm"),
    *("--gpu-memory-fraction", "0.95", "--num-sequences", "58", "--prompt-tokens", "7680"),
    *("--output-tokens", "512", "--max-model-len", "8192"),
)
CLUSTER = {
    "name": "lab",
    "pools": [{"name": "a", "gpu": "T4", "num_nodes": 2, "gpus_per_node": 4}],
}
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("fit", "gpt2", "--gpu", "T4", *_TRAIN),
    ("fit", "llama-3.1-8b", "--gpu", "T4", *_TRAIN, "--method", "lora", "--lora-rank", "8"),
    ("fit", "llama-3.1-8b", "--gpu", "L40S", *_SERVE, "--engine", "vllm", "--json"),
    ("how-many", "llama-3.1-8b", "--gpu", "L4", *_TRAIN, "--method", "lora"),
    ("plan", "gpt2", "--gpus", "T4,L4", *_TRAIN, "--format", "slurm"),
    ("ceilings", "gpt2", "--gpu", "T4", *_TRAIN, "--maximize", "micro_batch_size"),
    ("clusters", "add", "lab", "--file", "{cluster}"),
    ("clusters", "list"),
    ("clusters", "show", "lab"),
    ("clusters", "import", "imported", "--from", str(_SAMPLES / _NODES)),
    ("plan", "gpt2", "--cluster", "lab", *_TRAIN),
    ("reservations", "add", "lab", "--gpus", "a=2", "--holder", "me", "--for", "1h", "--json"),
    ("reservations", "list", "lab"),
    ("reservations", "delete", "lab", "{id}"),
    ("models", "list"),
    ("models", "show", "gpt2"),
    ("measure", "gpt2", "--device", "cpu", *_TRAIN, "--dry-run"),
    ("measure", "gpt2", "--device", "cpu", *_TRAIN, "--no-wait"),
    ("measurements", "show", "{id}"),
    ("measure", "--cancel", "{id}"),
    ("measurements", "list"),
    ("measurements", "import", str(_SAMPLES / _LOG), "--model", *_LOGGED),
    ("workers",),
    ("accuracy",),
    ("calibrations", "list"),
    ("keys", "create", "slurm", "--scopes", "plan", "--json"),
    ("keys", "list"),
    ("audit",),
    ("version",),
)
"""``{id}`` is that of what the last command with one made, ``{cluster}`` a file of CLUSTER."""
