"""Engines of encoders, which keep nothing: a step reads its prompts through."""

from dataclasses import dataclass

from service.estimator.backends.paged_pool.memory_parts import MemoryPart


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPool:
    """Room of one step; there is no pool.

    A step has ``batched_tokens`` of at most ``most_sequences``.
    """

    batched_tokens: int
    most_sequences: int

    @property
    def num_blocks(self) -> int:
        """Blocks: none."""
        return 0

    @property
    def bytes(self) -> int:
        """Bytes of blocks: none."""
        return 0

    @property
    def state_bytes(self) -> int:
        """Bytes of states: none."""
        return 0

    def limit_blocks(self, num_blocks: int) -> "StepPool":
        """Return the room as it is: there are no blocks."""
        assert not num_blocks  # noqa: S101 - no stage of such an engine has any
        return self

    def count_tokens(self, longest: int) -> int:
        """Return the tokens of a pool: none."""
        del longest
        return 0

    def count_sequences(self, tokens: int) -> float:
        """Return the prompts that one step reads."""
        return min(self.most_sequences, self.batched_tokens // tokens)

    def count_bytes(self, num_sequences: int, tokens: int) -> int:
        """Return the bytes that prompts take of a pool: none."""
        del num_sequences, tokens
        return 0

    def count_concurrency(self, longest: int) -> float:
        """Return the sequences of the longest length that run at once."""
        return self.count_sequences(longest)

    def count_start_bytes(self, longest: int) -> int:
        """Return the bytes that one sequence needs at the start."""
        return self.count_required_bytes(1, longest)

    def count_required_bytes(self, num_sequences: int, tokens: int) -> int:
        """Return the bytes that prompts need of a pool: none."""
        return self.count_bytes(num_sequences, tokens)

    def list_limits(self, num_sequences: int, tokens: int) -> tuple[str, ...]:
        """Return what keeps prompts waiting: nothing, they follow step by step."""
        del num_sequences, tokens
        return ()

    def list_parts(self, source: str) -> tuple[MemoryPart, ...]:
        """Return the pool's parts: none."""
        del source
        return ()
