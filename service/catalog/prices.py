"""The price book: rental prices per GPU hour.

Each price has its source and its date.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_DATA = Path(__file__).with_name("prices.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Price of one GPU hour in USD, with source and date."""

    gpu: str
    usd_per_gpu_hour: float
    date: str
    source: str


@cache
def list_prices() -> Mapping[str, Price]:
    """Return the price book by GPU name.

    A GPU that nobody rents out at a published price has none.
    """
    return {raw["gpu"]: Price(**raw) for raw in json.loads(_DATA.read_bytes())}
