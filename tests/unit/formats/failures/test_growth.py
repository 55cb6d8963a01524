"""Memory from step to step."""

import pytest

from service.formats.failures.failure import make_span
from service.formats.failures.growth import GrowthReader, Series

GIB = 2**30


def read(*lines: str) -> GrowthReader:
    """Return a reader of some lines."""
    reader = GrowthReader()
    for number, line in enumerate(lines, start=1):
        reader.feed(line, line=number, rank=None)
    return reader


@pytest.mark.parametrize(
    "wording",
    [
        "MA {0:.2f} GB         Max_MA 30.0 GB         CA 40.0 GB",
        "step:  1  loss: 2.1  memory: {0:.2f}GiB(57.65%)  tps: 1,000",
        "GPU memory usage while training: {0:.3f}GB (+1.2GB cache)",
        "{{'loss': 1.2, 'memory/max_active (GiB)': {0:.2f}}}",
        "Step 3 | loss:1.2 peak_memory_active:{0:.2f}",
        "ep 13 train, step 95, mem_usage:cuda:0 {0:.1f}GB, 0.750 sec/step",
    ],
)
def test_what_grows_at_every_step_is_seen(wording: str) -> None:
    """Every program's way to print its memory, and the mean growth between two lines."""
    lines = [wording.format(value) for value in (5, 9, 10, 11, 12, 13, 14)]

    growth = read(*lines).find()

    assert growth is not None
    assert growth.num_steps == 5
    assert growth.bytes_per_step == pytest.approx(GIB)
    assert (growth.first_line, growth.last_line) == (3, 7)


@pytest.mark.parametrize(
    "values",
    [
        (5, 9, 10, 10, 10, 10, 10, 10),
        (5, 9, 10, 11, 10, 11, 10, 11),
        (5, 9, 10, 11, 12),
        (9, 9, 10.00, 10.01, 10.02, 10.03, 10.04),
        (5, 9, 14, 13, 12, 11, 10, 9),
    ],
)
def test_what_does_not_grow_is_no_leak(values: tuple[float, ...]) -> None:
    """The first steps make states; few steps, waves and crumbs tell nothing."""
    growth = read(*(f"MA {value:.2f} GB  Max_MA 30.0 GB" for value in values)).find()

    assert growth is None


def test_a_long_series_is_thinned_and_counted_whole() -> None:
    """Its growth is that of all ten thousand steps."""
    lines = (f"MA {10 + step / 1000:.3f} GB  Max_MA 30.0 GB" for step in range(10_000))

    growth = read(*lines).find()

    assert growth is not None
    assert (growth.num_steps, growth.first_line, growth.last_line) == (9_998, 3, 10_000)
    assert growth.bytes_per_step == pytest.approx(GIB / 1000, rel=1e-4)


def test_readings_that_are_kept_stay_few() -> None:
    """Two thousand of ten thousand at most, the last one among them."""
    series = Series()
    for line in range(1, 10_001):
        series.add(line, make_span(str(line), "MB"))

    assert len(series.readings) <= 2048
    assert series.list_readings()[-1][0] == 10_000
