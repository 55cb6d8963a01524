"""Older cards that the catalogue has not, each with its memory.

Generations are those of NVIDIA's tables (https://developer.nvidia.com/cuda-legacy-gpus), memory is
what their product pages say. Engines' least capabilities: vLLM and LMDeploy 7.0, SGLang 7.5 (their
installation guides); CUDA 12.0 compiles for none of Kepler's any more (its release notes).
"""

import re
from collections.abc import Mapping

from service.catalog.foreign_gpus import BY_MEMORY

_PREFIXES = re.compile(r"nvidia|geforce|gtx|tesla|quadro|amd|instinct|radeon")
_OWN_SIZE = re.compile(r"(?<=[\s-])(?P<size>[0-9]{1,3})\s?(?:gib|gb|g)$")
_GENERATIONS: Mapping[str, str] = {
    "Pascal": "P40 has its capability, 6.1; vLLM, SGLang and LMDeploy need 7.0 and more",
    "Maxwell": "Its capability is 5.x; vLLM, SGLang and LMDeploy need 7.0 and more",
    "Kepler": "CUDA 12 compiles nothing for it any more, and no engine of today runs there",
    "Volta": "V100-PCIE-32GB has its capability, 7.0",
    "Turing": "T4 has its capability, 7.5, though no GTX has its tensor cores",
    "Vega": "MI210-64GB is the oldest of AMD's with figures",
    "CDNA": "MI210-64GB is the next, of CDNA 2",
}
_CARDS: Mapping[str, Mapping[str, int]] = {
    "Pascal": {
        "1050": 2,
        "1050ti": 4,
        "1060": 6,
        "1070": 8,
        "1070ti": 8,
        "1080": 8,
        "1080ti": 11,
        "titanx": 12,
        "titanxp": 12,
        "p2000": 5,
        "p4000": 8,
        "p5000": 16,
        "p6000": 24,
    },
    "Maxwell": {
        "970": 4,
        "980": 4,
        "980ti": 6,
        "m10": 8,
        "m40": 24,
        "m60": 8,
        "m6000": 24,
    },
    "Kepler": {"k20": 5, "k40": 12, "k80": 12},
    "Volta": {"titanv": 12, "gv100": 32},
    "Turing": {
        "1650": 4,
        "1650super": 4,
        "1650ti": 4,
        "1660": 6,
        "1660super": 6,
        "1660ti": 6,
        "t1000": 8,
    },
    "Vega": {"mi50": 32, "mi60": 32},
    "CDNA": {"mi100": 32},
}
"""GiB of each card by generation; of K80, M10 and M60 those of one of the GPUs on a board."""


def explain_older(name: str) -> str | None:
    """Return how to ask about an older card.

    None for a name of none of them.
    """
    text = name.casefold().strip()
    own_size = _OWN_SIZE.search(text)
    text = text[: own_size.start()] if own_size is not None else text
    key = re.sub(r"[\s_-]", "", _PREFIXES.sub("", re.sub(r"[_-]", " ", text)))
    for generation, cards in _CARDS.items():
        if key in cards:
            size = own_size["size"] if own_size is not None else cards[key]
            by_memory = BY_MEMORY.format(size=f"{size}Gi")
            return (
                f"{name!r} is a card of the generation {generation}, of which the catalogue has no "
                f"figures: {by_memory}. {_GENERATIONS[generation]}."
            )
    return None
