"""Memory that tokens and recurrent states share.

SGLang 0.5.23, ``srt/mem_cache/kv_cache_configurator.py`` (``_handle_max_mamba_cache``,
``resolve_max_num_reqs``): states get a share of what is left, in whole slots of which one is
padding; tokens get the remainder. A running request holds several slots.
"""

from dataclasses import dataclass

from service.estimator.backends.paged_pool.memory_parts import (
    MemoryPart,
    make_exact_part,
)
from service.estimator.values.units import ceil_div

STATE_SHARE = (9, 10)
"""States to keys and values: ``mamba_full_memory_ratio`` is 0.9."""
_FEWEST, _MOST = 2048, 4096
"""Bounds of the requests that run at once, which are 512 for each longest one that has room."""
_PER_CONTEXT = 512
_LEAST_TOKENS = 2
"""Tokens of a request at least (``token_capacity // 2``)."""


def count_running_requests(pool_tokens: int, context_tokens: int) -> int:
    """Return how many requests a server runs at once by default."""
    return max(_FEWEST, min(pool_tokens * _PER_CONTEXT // context_tokens, _MOST))


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitPool:
    """Pools of a rank.

    ``available_bytes`` is shared by both, ``token_bytes`` is what a token takes, ``slot_bytes``
    what one state of all layers takes, ``request_slots`` how many of them a request holds. Where
    no layer keeps tokens, as many as ``context_tokens`` are counted, without a byte.
    """

    available_bytes: int
    token_bytes: int
    slot_bytes: int
    request_slots: int
    context_tokens: int
    batched_tokens: int

    @property
    def slots(self) -> int:
        """Slots that requests can have; one more is padding."""
        states, tokens = STATE_SHARE
        return max(0, self.available_bytes * states // (states + tokens) // self.slot_bytes - 1)

    @property
    def state_bytes(self) -> int:
        """Bytes of all slots."""
        return (self.slots + 1) * self.slot_bytes if self.slots else 0

    @property
    def num_blocks(self) -> int:
        """Tokens that have room."""
        if not self.token_bytes:
            return self.context_tokens
        return max(0, self.available_bytes - self.state_bytes) // self.token_bytes

    @property
    def bytes(self) -> int:
        """Bytes of the keys and values of all tokens."""
        return self.num_blocks * self.token_bytes

    def limit_blocks(self, num_blocks: int) -> "SplitPool":
        """Return the pool as it is: its engine has no stages."""
        assert num_blocks == self.num_blocks  # noqa: S101 - its engine has no stages
        return self

    def count_tokens(self, longest: int) -> int:
        """Return the tokens as the engine prints them, whatever the ``longest`` is."""
        del longest
        return self.num_blocks

    def count_sequences(self, tokens: int) -> float:
        """Return the sequences of so many tokens that run at once."""
        return min(
            count_running_requests(self.num_blocks, self.context_tokens),
            self.num_blocks // max(tokens, _LEAST_TOKENS),
            self.slots // self.request_slots,
        )

    def count_bytes(self, num_sequences: int, tokens: int) -> int:
        """Return the bytes that sequences hold in both pools."""
        slots = num_sequences * self.request_slots
        return num_sequences * tokens * self.token_bytes + slots * self.slot_bytes

    def count_concurrency(self, longest: int) -> float:
        """Return the sequences of the longest length that run at once."""
        return self.count_sequences(longest)

    def count_start_bytes(self, longest: int) -> int:
        """Return the bytes that one sequence needs at the start."""
        return self.count_required_bytes(1, longest)

    def count_required_bytes(self, num_sequences: int, tokens: int) -> int:
        """Return the shared bytes from which on sequences always have room.

        Each further slot takes its bytes from the tokens at once, so that somewhat less may hold
        them too: what is there counts where it does.
        """
        states, ratio = STATE_SHARE
        total = states + ratio
        slots = num_sequences * self.request_slots
        kept = num_sequences * tokens * self.token_bytes
        boundary = ceil_div(kept * states, self.slot_bytes * ratio)
        required = max(
            ceil_div((slots + 1) * self.slot_bytes * total, states),
            kept + max(0, boundary - 1) * self.slot_bytes,
        )
        has_room = slots <= self.slots and kept <= self.bytes
        return min(required, self.available_bytes) if has_room else required

    def list_limits(self, num_sequences: int, tokens: int) -> tuple[str, ...]:
        """Return what keeps sequences waiting though their memory is there."""
        at_once = int(self.count_sequences(tokens))
        if at_once >= num_sequences:
            return ()
        if self.token_bytes or num_sequences * tokens <= self.num_blocks:
            return (f"{at_once:,} requests run at once, and the others wait",)
        text = (
            f"the engine counts {self.num_blocks:,} tokens of all requests together where no layer "
            f"keeps any: {at_once:,} run at once and the others wait; --max-total-tokens says more"
        )
        return (text,)

    def list_parts(self, source: str) -> tuple[MemoryPart, ...]:
        """Return both pools as parts of a rank's memory."""
        return (
            make_exact_part(
                "kv_cache",
                self.bytes,
                f"{self.num_blocks:,} tokens x {self.token_bytes:,} B",
                source,
            ),
            make_exact_part(
                "recurrent_state",
                self.state_bytes,
                f"({self.slots:,} slots + 1 of padding) x {self.slot_bytes:,} B, "
                f"{self.request_slots} slots a request",
                source,
                persistent=True,
            ),
        )
