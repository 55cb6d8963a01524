"""From readings to one measurement per job."""

from service.formats.measured.observe import Match, observe
from service.formats.measured.reading import Place, Quantity, Reading


def reading(
    value: int, quantity: Quantity = Quantity.DEVICE, *, num_gpus: int | None = 1, **place: object
) -> Reading:
    """Return an exact reading."""
    where = Place(**place)  # type: ignore[arg-type]  # words of a place, by name
    return Reading(
        quantity=quantity, value=value, low=value, high=value, place=where, num_gpus=num_gpus
    )


def test_the_neediest_rank_decides() -> None:
    """Of bytes the highest counts, of an engine's pool the smallest, since all ranks get what the
    poorest has.
    """
    pools = [reading(40, Quantity.KV_POOL), reading(30, Quantity.KV_POOL)]
    [found], _ = observe([reading(5), reading(7), *pools], num_gpus=2)

    assert {quantity: peak.value for quantity, peak in found.peaks.items()} == {
        Quantity.DEVICE: 7,
        Quantity.KV_POOL: 30,
    }


def test_jobs_are_kept_apart() -> None:
    """Each job is one measurement."""
    found, _ = observe([reading(5, job="1"), reading(7, job="2"), reading(6, job="1")], num_gpus=1)

    assert [(one.job, one.peaks[Quantity.DEVICE].value) for one in found] == [("1", 6), ("2", 7)]


def test_a_sum_over_gpus_bounds_one_of_them() -> None:
    """The fullest of four GPUs has a quarter of their sum or more."""
    [found], _ = observe([reading(42, num_gpus=4)], num_gpus=4)

    peak = found.peaks[Quantity.DEVICE]
    assert (peak.value, peak.low, peak.high) == (11, 10, None)
    assert "4 GPUs" in peak.note


def test_a_sum_over_nobody_knows_how_many_tells_nothing() -> None:
    """Unless the whole job has one GPU."""
    alone, none = (
        observe([reading(42, num_gpus=None)], num_gpus=1),
        observe([reading(42, num_gpus=None)], num_gpus=8),
    )

    assert alone[0][0].peaks[Quantity.DEVICE].value == 42
    assert none[0] == ()
    assert "AllocTRES" in none[1][0].reason


def test_every_word_of_a_match_must_hold() -> None:
    """A GPU may be named by its index or its UUID."""
    taken = reading(1, job="7", host="n1", gpu="0", gpu_uuid="GPU-1", pid=42)

    assert all(
        match.matches(taken)
        for match in (Match(), Match(job="7", gpu="0"), Match(gpu="GPU-1", pid=42, host="n1"))
    )
    assert not any(
        match.matches(taken)
        for match in (Match(job="8"), Match(job="7", host="n2"), Match(pid=43), Match(gpu="1"))
    )
