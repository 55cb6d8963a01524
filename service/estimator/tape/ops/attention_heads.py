"""Heads of one attention, with their sizes."""

from dataclasses import dataclass

from service.estimator.tape.nodes import Value
from service.estimator.tape.sizes import Size

ALIGNED_WIDTH = 8
"""Elements of a head, of which flash attention's kernel takes multiples (ATen ``pad_last_dim``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heads:
    """Sizes of one attention: heads, softmax rows and scores.

    ``dropout`` is the chance to drop a score.
    """

    num_heads: int
    num_kv_heads: int
    rows: Size
    scores: Size
    bias: Size | None = None
    """Elements of a mask that the scores get beside the causal one: SDPA makes it a bias in the
    query's dtype, each time.
    """
    padded_bias: Size | None = None
    """The same with rows as long as the memory-efficient kernel's, which gets a copy where they are
    longer.
    """
    causal_mask: Size | None = None
    """Elements of the causal mask where it is no tensor but a flag, of which the math kernel makes
    one.
    """
    softcap: bool = False
    dropout: float = 0.0
    causal: bool = True
    casts_back: bool = True
    """Whether eager code casts probabilities back to the query's dtype before dropout; else
    autocast does, for the product.
    """
    head_major: bool = False
    """Whether the query lies head after head: then flash's output does too, and is copied to lie
    token after token.
    """
    output: Size | None = None
    """Elements of the output where a head's values are not as many as its keys; flash has no kernel
    for that.
    """
    per_sequence: bool = False
    """Whether each sequence is attended to for itself: products read its parts as they lie."""
    token_major_queries: bool = False
    """Whether queries of several sequences lie token after token, where the math kernel runs."""
    token_major_keys: bool = False
    """The same of keys and values, which lie head after head once they come out of a cache."""
    aligned_rows: Size | None = None
    """Rows of the softmax rounded up to the memory-efficient kernel's multiple, where the length is
    known.
    """

    @property
    def grouped(self) -> bool:
        """Whether several query heads share a key and value head."""
        return self.num_heads != self.num_kv_heads

    @property
    def multi_query(self) -> bool:
        """Whether all query heads share the only key and value head."""
        return self.grouped and self.num_kv_heads == 1

    def count_width(self, query: Value) -> int:
        """Return the elements of one head of a query."""
        return sum(query.numel) // sum(self.rows)

    def count_padding(self, query: Value) -> int:
        """Return the elements by which flash attention's heads are padded."""
        return -self.count_width(query) % ALIGNED_WIDTH
