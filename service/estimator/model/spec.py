"""Numbers of a model.

Its family file reads them from a config.
"""

from dataclasses import dataclass

from service.estimator.values.heads import Head


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderSpec:
    """Numbers and switches of a decoder-only model.

    They have one vocabulary for all families.
    """

    family: str
    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    activation: str
    norm: str = "rms"
    gated: bool = True
    tie_word_embeddings: bool = False
    attention_bias: bool = False
    attention_output_bias: bool = False
    mlp_bias: bool = False
    query_key_norm: bool = False
    fused_projections: bool = False
    rotary: bool = True
    max_position_embeddings: int = 0
    position_factor: float = 1.0
    """Factor by which a config scales rotary positions beyond ``max_position_embeddings``."""
    original_positions: int = 0
    """What it scales, where it names them (yarn); 0 for ``max_position_embeddings``."""
    position_scaling: str = ""
    """How a config scales them, where it does: its ``rope_type``."""
    num_experts: int = 0
    num_experts_per_token: int = 0
    sliding_window: int | None = None
    attention_dropout: float = 0.0
    residual_dropout: float = 0.0
    embedding_dropout: float = 0.0
    num_predictors: int = 0
    """Layers of multi-token prediction in its checkpoint, which engines load to guess ahead."""
    approximate: bool = False
    """Only the number of parameters is known: the shape is a stand-in, and intervals say so."""
    head: str = Head.DEFAULT.value
    num_labels: int = 0
    """Outputs of a head that classifies."""
    head_dropout: float = 0.0
    problem_type: str = ""
    """Loss of sequence classification, where it is not that of its number of labels."""
