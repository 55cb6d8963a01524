"""Benchmark of the Explore page: ``python -m tests.bench.repricing``.

It times from a key to the painted bars in a headless Chromium, and needs one on PATH. Every number
that is typed is one that was not asked before, so that each is a first answer: the slowest there
is.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import Browser, Page, sync_playwright
from rich.console import Console
from rich.table import Table

from tests.bench.servers import run_service

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
MEASURE = "performance.getEntriesByName('headroom.reprice').map((entry) => entry.duration)"
"""Times that the page measures itself: from the input event to the frame with the bars."""
PAUSE_MS = 500
"""Pause between keys, longer than the page waits before it searches for remedies.

So keys come while that search is going on.
"""
LOOK_MS = 20
PAINT_TIMEOUT_S = 30.0
SMALL, LARGE = "T4", "H200-SXM5-141GB"
DEGREES: Mapping[str, tuple[int, int]] = {
    "llama-3.2-1b": (1, 1),
    "llama-3.1-8b": (2, 1),
    "llama-3.1-70b": (16, 4),
    "mixtral-8x7b": (16, 2),
    "deepseek-v3": (16, 8),
}
"""Number of GPUs that share a model's training, and a replica of it."""
_FP8 = {"deepseek-v3"}
"""Models whose weights are published in FP8 alone, which takes no gradient: they are served."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A question whose ``typed_field`` changes."""

    model: str
    title: str
    parameters: Mapping[str, object]
    typed_field: str

    @property
    def path(self) -> str:
        """The page's address with this question."""
        return "/?" + urlencode({"model": self.model, **self.parameters})


def iter_cases() -> Iterator[Case]:
    """Yield every model trained, with adapters and served.

    Each runs on GPUs that are large enough and on one that is not.
    """
    for model, (ranks, degree) in DEGREES.items():
        sharded = {"layout.data_parallel": ranks, "layout.zero_stage": 3}
        adapters = {
            "workload.method": "lora",
            "layout.data_parallel": degree,
            "layout.zero_stage": 3,
        }
        if model not in _FP8:
            yield _build_case(model, "train", LARGE, sharded)
            yield _build_case(model, "LoRA", LARGE, adapters)
            yield _build_case(model, "train, too small", SMALL, {})
        yield _build_case(
            model,
            "serve",
            LARGE,
            {
                "workload.engine": "vllm",
                "workload.max_model_len": 8192,
                "layout.tensor_parallel": degree,
            },
        )
        yield _build_case(model, "serve, too small", SMALL, {"workload.num_sequences": 256})


def _build_case(model: str, title: str, gpu: str, parameters: Mapping[str, object]) -> Case:
    is_serving = title.startswith("serve")
    typed_field = "workload.prompt_tokens" if is_serving else "workload.sequence_length"
    fields = {
        "gpu": gpu,
        "task": "serve" if is_serving else "train",
        typed_field: 1024,
        **parameters,
    }
    return Case(model=model, title=title, parameters=fields, typed_field=typed_field)


def main() -> int:
    """Print the time of each case beside the load of the machine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=20, help="numbers that are typed for each case")
    keys = parser.parse_args().keys
    chromium = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if chromium is None:
        sys.stderr.write(f"no browser: none of {', '.join(BROWSERS)} is on PATH\n")
        return 1
    table = Table(
        "model",
        "question",
        "verdict",
        "median ms",
        "p95 ms",
        "load",
        title="From a key to the painted bars",
    )
    with (
        tempfile.TemporaryDirectory(prefix="headroom-bench-") as folder,
        run_service(Path(folder)) as port,
        sync_playwright() as kit,
    ):
        # Chromium has no sandbox for root, which is who runs this in a container.
        browser = kit.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for case in iter_cases():
            table.add_row(
                case.model,
                case.title,
                *_measure_case(browser, f"http://127.0.0.1:{port}", case, keys),
            )
        browser.close()
    Console().print(table)
    return 0


def _measure_case(browser: Browser, address: str, case: Case, keys: int) -> tuple[str, ...]:
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(address + case.path)
    _wait_for_paints(page, 1)
    verdict = page.inner_text(".verdict-line").partition(":")[0].partition(",")[0]
    page.evaluate("performance.clearMeasures()")
    for number in range(keys):
        page.fill(f"fieldset:not([hidden]) [name='{case.typed_field}']", str(1041 + 16 * number))
        _wait_for_paints(page, number + 1)
        page.wait_for_timeout(PAUSE_MS)
    times = sorted(page.evaluate(MEASURE))
    page.close()
    return (
        verdict,
        f"{times[len(times) // 2]:.0f}",
        f"{times[round(0.95 * (len(times) - 1))]:.0f}",
        f"{os.getloadavg()[0]:.1f}",
    )


def _wait_for_paints(page: Page, num_painted: int) -> None:
    """Wait until answers are painted on the screen.

    It polls from here, since the page's policy lets no script poll in it.
    """
    deadline = time.monotonic() + PAINT_TIMEOUT_S
    while len(page.evaluate(MEASURE)) < num_painted:
        if time.monotonic() > deadline:
            message = f"nothing was painted within {PAINT_TIMEOUT_S:g} s at {page.url}"
            raise TimeoutError(message)
        page.wait_for_timeout(LOOK_MS)


if __name__ == "__main__":
    sys.exit(main())
