"""Expected results of the chaos test's jobs.

Each is a number that follows from the job's own, so that a mix-up is detected.
"""

import hashlib

NUM_SAMPLES = 3
_MODEL = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "vocab_size": 256,
    "max_position_embeddings": 128,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
}
_SMALL = 1 << 40


def allocated_bytes(number: int) -> int:
    """Return the expected result of job ``number``."""
    return 1 + int.from_bytes(hashlib.sha256(b"%d" % number).digest()[:8]) % _SMALL


def sample_bytes(number: int, index: int) -> int:
    """Return sample ``index`` of job ``number``."""
    return allocated_bytes(number) + index


def build_request(
    number: int, *, hold: str | None = None, work_s: float = 0.0, deaf: bool = False
) -> dict[str, object]:
    """Build the body of a request.

    Its probe works for ``work_s`` seconds and then as long as the file ``hold`` exists.
    """
    orders = {"number": number, "hold": hold, "work_s": work_s, "deaf": deaf}
    return {
        "model": {"hf_config": {**_MODEL, "chaos": orders}},
        "workload": {"task": "train", "sequence_length": 8},
        "device": "cpu",
    }
