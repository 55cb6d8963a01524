"""What filled a traced peak, as a person reads it."""

from rich.console import Console

from service.cli.views.peak import iter_peak_tables

GIB = 2**30
AT_PEAK = {
    "stretch": "loss/gradient",
    "bytes": 4 * GIB,
    "by_kind": {"weights": GIB, "optimizer_states": 3 * GIB},
    "largest": [
        {
            "kind": "optimizer_states",
            "name": "exp_avg",
            "shape": [1024, 64],
            "dtype": "bfloat16",
            "made_in": "optimizer_step",
            "count": 64,
            "bytes": 2 * GIB,
        },
    ],
}


def shown(*probes: dict[str, object]) -> str:
    """Return what is printed of a result with these probes."""
    screen = Console(width=100, color_system=None)
    with screen.capture() as capture:
        for made in iter_peak_tables({"probes": list(probes)}):
            screen.print(made)
    return capture.get()


def test_kinds_are_told_largest_first_with_their_share() -> None:
    """The JSON of a database keeps no order; three of four GiB are 75 per cent."""
    text = shown({"num_layers": 2, "at_peak": AT_PEAK})

    assert text.startswith("4.00 GiB held by 2 layers at their peak, in loss/gradient")
    assert text.index("optimizer states") < text.index("weights")
    assert "75.0%" in text


def test_tensors_that_are_alike_are_one_line() -> None:
    """Their number, shape and dtype, and their bytes in all."""
    text = shown({"num_layers": 2, "at_peak": AT_PEAK})

    assert "64 x exp_avg" in text
    assert "1024 x 64 bfloat16" in text


def test_the_deepest_run_speaks_for_all() -> None:
    """Slices come first; what fills them is not what fills the whole."""
    deeper = {"num_layers": 32, "at_peak": AT_PEAK | {"bytes": 8 * GIB}}

    assert "8.00 GiB held by 32 layers" in shown({"num_layers": 2, "at_peak": AT_PEAK}, deeper)


def test_nothing_is_shown_of_runs_that_were_not_followed() -> None:
    """A run on a processor knows bytes and no tensors; results of before have no such field."""
    assert not shown({"num_layers": 2, "at_peak": None}, {"num_layers": 3})
