"""Random passes for the allocator's forms."""

from random import Random

KIB, MIB = 2, 2048
"""In blocks of 512 bytes."""


def draw_pass(random: Random) -> tuple[tuple[int, ...], list[int]]:
    """Return events and sizes: what is live is freed in any order, some of it never, and some of it
    has no size.
    """
    sizes = [
        random.choice([0, 1, KIB, 700, MIB, MIB + 1, 5 * MIB, random.randrange(1, 90 * MIB)])
        for _ in range(120)
    ]
    order: list[int] = []
    live: list[int] = []
    for event in range(len(sizes)):
        order.append(event)
        live.append(event)
        while live and random.random() < 0.45:
            order.append(~live.pop(random.randrange(len(live))))
    return tuple(order), sizes
