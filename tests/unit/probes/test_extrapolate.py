"""Each stretch is a line in depth; the maximum of an instant is taken after the lines are drawn."""

from hypothesis import given
from hypothesis import strategies as st

from service.probing.plan import Point
from worker.probes.run.extrapolate import (
    PointReading,
    compute_instant_peaks,
    extrapolate_layers,
    extrapolate_tokens,
)

COUNTS = st.integers(0, 10**12)


def run(num_layers: int, *, saved: int, grads: int, head: int, update: int = 0) -> PointReading:
    """Return the reading of a model whose layers keep ``saved`` bytes for backward, which turns
    them into ``grads``.
    """
    live = {"forward/embedding": head}
    live |= {f"forward/layer:{index}": head + (index + 1) * saved for index in range(num_layers)}
    live |= {
        "loss/head": 2 * head + num_layers * saved,
        "backward/head": 3 * head + num_layers * saved,
    }
    live |= {
        f"backward/layer:{index}": head + (index + 1) * saved + (num_layers - index) * grads
        for index in reversed(range(num_layers))
    }
    live |= {
        "backward/embedding": 2 * head + num_layers * grads,
        "optimizer_step": head + num_layers * (grads + update),
    }
    return PointReading(
        point=Point(layers=tuple(range(num_layers)), micro_batch_size=1, sequence_length=1),
        live=live,
        allocator=live,
        steady_bytes=head + num_layers * update,
        load_bytes=head + num_layers,
    )


@given(saved=COUNTS, grads=COUNTS, head=COUNTS, update=COUNTS, num_layers=st.integers(4, 200))
def test_two_depths_give_every_depth_exactly(
    saved: int, grads: int, head: int, update: int, num_layers: int
) -> None:
    """Wherever the peak moves as the model grows, it is found."""
    slices = [run(depth, saved=saved, grads=grads, head=head, update=update) for depth in (2, 3)]
    whole = run(num_layers, saved=saved, grads=grads, head=head, update=update)

    answer = extrapolate_layers(slices, range(num_layers), [0] * num_layers)

    assert answer.instants == {"load": whole.load_bytes} | compute_instant_peaks(whole.live)
    assert answer.steady_bytes == whole.steady_bytes


def test_the_total_peak_would_not_extrapolate() -> None:
    """The line through two peaks misses a peak that moves: here from the head to the optimizer
    step.
    """
    shapes = {"saved": 1, "grads": 10, "head": 1000, "update": 300}
    first, second, whole = (max(run(depth, **shapes).live.values()) for depth in (2, 3, 32))

    answer = extrapolate_layers([run(2, **shapes), run(3, **shapes)], range(32), [0] * 32)

    assert max(answer.instants.values()) == whole
    assert first + (second - first) * 30 != whole


def test_one_run_answers_for_itself() -> None:
    """A model that was run whole needs no line."""
    whole = run(5, saved=3, grads=2, head=7)

    assert extrapolate_layers([whole], range(5), [0] * 5).instants == {
        "load": 12
    } | compute_instant_peaks(whole.live)


@given(residual=st.integers(-(10**9), 10**9), per_token=st.integers(-(10**5), 10**5))
def test_fewer_tokens_shift_the_analytic_answer(residual: int, per_token: int) -> None:
    """A difference that is linear in tokens is carried to the asked tokens, over any curve of the
    analytic answer.
    """

    def analytic(tokens: int) -> int:
        return 5 * tokens**2 + 10**10

    def truth(tokens: int) -> int:
        return analytic(tokens) + residual + per_token * tokens

    found = extrapolate_tokens(
        {64: truth(64), 128: truth(128)},
        {64: analytic(64), 128: analytic(128)},
        num_tokens=4096,
        analytic_bytes=analytic(4096),
    )

    assert found == truth(4096)
