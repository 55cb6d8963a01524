"""Whisper on vLLM: a decoder with two caches, and its encoder.

0.33.0, ``model_executor/models/whisper.py``, ``v1/kv_cache_interface.py`` (``CrossAttentionSpec``),
``multimodal/encoder_budget.py``, ``config/scheduler.py``. Layers of self-attention and those of
cross-attention are two groups of one pool: a request takes blocks for its tokens, and for all
positions of the encoder.
"""

from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeGuard

from service.estimator.backends.paged_pool.activation_peak import count_peak_elements
from service.estimator.backends.paged_pool.blocks import KvBlockPool, Paging
from service.estimator.backends.paged_pool.layer_caches import LayerCache
from service.estimator.backends.paged_pool.rank_memory import Rank
from service.estimator.backends.vllm.profile import ProfilingBatch, TowerRun
from service.estimator.model.architecture import Architecture
from service.estimator.model.modules.layers.encoder_decoder import EncoderDecoderLayer
from service.estimator.model.trees.encoder_decoder import EncoderDecoder
from service.estimator.values.dtypes import DType
from service.estimator.values.engine_versions import Version
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.memo import keep_latest
from service.estimator.values.units import ceil_div

_OLDEST = Version(0, 33)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechEncoder:
    """Encoder of a speech model, in elements of one audio.

    ``positions`` are those of an audio, ``peak_elements`` are alive for each of them at the widest
    point of a layer.
    """

    positions: int
    hidden_size: int
    peak_elements: int

    def count_items(self, batched_tokens: int, max_num_sequences: int) -> int:
        """Return the audios of the profiling run (``_get_max_items``)."""
        return max(1, min(batched_tokens // self.positions, max_num_sequences))

    def count_run_bytes(self, items: int, width: int) -> int:
        """Return the bytes at the peak of the encoder's own run."""
        return items * self.positions * self.peak_elements * width

    def count_output_bytes(self, items: int, width: int) -> int:
        """Return the bytes of what the encoder hands on."""
        return items * self.positions * self.hidden_size * width


def run_encoder(encoder: SpeechEncoder, batch: ProfilingBatch, *, workspace_bytes: int) -> TowerRun:
    """Return the encoder's part of the profiling run."""
    items = encoder.count_items(batch.num_tokens, batch.num_sequences)
    width = batch.bytes_per_element
    return TowerRun(
        peak_bytes=encoder.count_run_bytes(items, width) + workspace_bytes,
        output_bytes=encoder.count_output_bytes(items, width),
        formula=f"the encoder over {items} audios of {encoder.positions} positions",
    )


def is_speech(model: Architecture) -> TypeGuard[EncoderDecoder]:
    """Return whether a model is a Whisper."""
    return isinstance(model, EncoderDecoder) and model.encoder.length is not None


def check_speech_release(version: Version) -> None:
    """Refuse a release whose Whisper was not read."""
    if version < _OLDEST:
        raise NotModelledError(
            f"vllm {version} with an encoder-decoder",
            field="workload.engine_version",
            modelled=[f"{_OLDEST} and later"],
        )


def load_decoder(model: EncoderDecoder) -> Architecture:
    """Return a model's decoder, beside which the encoder's weights stand."""
    return _load_parts(_SpeechModel(model))[0]


def load_encoder(model: EncoderDecoder) -> SpeechEncoder:
    """Return a model's encoder."""
    return _load_parts(_SpeechModel(model))[1]


def count_encoder_layers(model: EncoderDecoder) -> int:
    """Return the layers of a model's encoder."""
    return sum(count for block, count in model.blocks if not _decodes(block))


class _SpeechModel:
    """A model that is known by its numbers."""

    def __init__(self, model: EncoderDecoder) -> None:
        self.model = model

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SpeechModel) and self.model.spec == other.model.spec

    def __hash__(self) -> int:
        return hash(self.model.spec)


@keep_latest(64)
def _load_parts(speech: _SpeechModel) -> tuple[Architecture, SpeechEncoder]:
    model = speech.model
    layers = [(block, count) for block, count in model.blocks if not _decodes(block)]
    encoder_weights = chain.from_iterable(
        weight for block, count in layers for weight in [tuple(block.weights())] * count
    )
    decoder = Architecture(
        spec=model.spec,
        embedding=model.embedding,
        position_embedding=model.position_embedding,
        blocks=tuple(pair for pair in model.blocks if _decodes(pair[0])),
        final_norm=model.final_norm,
        head=model.head,
        stem=(*model.stem, *encoder_weights),
    )
    length = model.encoder.length
    assert length is not None  # noqa: S101 - what is_speech asks
    encoder = SpeechEncoder(
        positions=length,
        hidden_size=model.spec.hidden_size,
        peak_elements=count_peak_elements(replace(decoder, blocks=tuple(layers)), flash=True),
    )
    return decoder, encoder


def _decodes(block: object) -> bool:
    return isinstance(block, EncoderDecoderLayer) and block.reads_memory


def adapt_speech_rank(rank: Rank, encoder_layers: int, dtype: DType) -> Rank:
    """Return a decoder's rank as vLLM loads it.

    Keys get a bias of zeros, the table of words is not padded, and the profiling run has no
    encoder output for cross-attention to read.
    """
    spec, layers = rank.model.spec, rank.num_layers
    bias = (encoder_layers + 2 * layers) * spec.hidden_size
    padding = (rank.model.embedding.shape[0] - spec.vocab_size) * spec.hidden_size
    alone = replace(
        rank.model,
        blocks=tuple(
            (replace(block, cross_attention=None), count)
            for block, count in rank.model.blocks
            if isinstance(block, EncoderDecoderLayer)
        ),
    )
    peaks = count_peak_elements(alone, flash=False), count_peak_elements(alone, flash=True)
    return replace(
        rank,
        weight_bytes=rank.weight_bytes + (bias - padding) * dtype.bytes_per_element,
        caches=(LayerCache(2 * spec.hidden_size, None, layers),),
        peak_elements=peaks,
    )


def check_batched_tokens(encoder: SpeechEncoder, batched_tokens: int) -> None:
    """Refuse a step that an audio does not fit (``compute_mm_encoder_budget``)."""
    if batched_tokens < encoder.positions:
        message = (
            f"max_num_batched_tokens is {batched_tokens}, but an audio has {encoder.positions} "
            f"positions that are read at once: say {encoder.positions} or more"
        )
        raise InvalidInputError(message, field="workload.max_num_batched_tokens")


def build_speech_pool(
    rank: Rank, encoder: SpeechEncoder, element_bytes: int, available_bytes: int, paging: Paging
) -> KvBlockPool:
    """Return the pool of both groups.

    One request has to fit at the start as if its encoder had a step's tokens
    (``CrossAttentionSpec.max_memory_usage_bytes``).
    """
    (cache,) = rank.caches
    block_bytes = cache.elements_per_token * cache.count * paging.block_tokens * element_bytes
    return KvBlockPool(
        num_blocks=max(0, available_bytes) // block_bytes,
        block_bytes=block_bytes,
        groups=(None,),
        paging=paging,
        blocks_of_states=ceil_div(encoder.positions, paging.block_tokens),
        state_groups=1,
        start_blocks=ceil_div(paging.batched_tokens, paging.block_tokens),
    )
