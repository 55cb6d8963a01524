"""Audio: frames of a spectrogram, or samples, as encoders read them."""

from collections.abc import Iterable

from service.estimator.processors.rules.items import Crop, Item
from service.estimator.processors.rules.settings import Settings

_QWEN3_WINDOW_TOKENS = 13
"""Tokens of a full window of 100 frames (``_get_feat_extract_output_lengths``)."""
_GEMMA_CONVOLUTIONS, _GEMMA_KERNEL, _GEMMA_STRIDE = 2, 3, 2


def count_whisper_audio(settings: Settings, samples: int) -> Item:
    """Return one window of Whisper's encoder, padded or cut to its length.

    (``whisper/feature_extraction_whisper.py``: 30 seconds.)
    """
    del samples
    return Item(features=0, crops=(_build_window(settings, 1),))


def count_qwen2_audio(settings: Settings, samples: int) -> Item:
    """Return audio of Qwen2-Audio and Qwen2.5-Omni: one window, pooled by two.

    (``qwen2_audio/processing_qwen2_audio.py``, ``_process_audio``.)
    """
    samples = min(samples, _count_window_samples(settings))
    frames = (_count_frames(settings, samples) - 1) // 2 + 1
    return Item(features=(frames - 2) // 2 + 1, crops=(_build_window(settings, 1),))


def count_qwen3_audio(settings: Settings, samples: int) -> Item:
    """Return audio of Qwen3-Omni, in windows of a hundred frames.

    (``qwen3_omni_moe/processing_qwen3_omni_moe.py``, ``_get_feat_extract_output_lengths``.)
    """
    frames, window = (
        samples // settings.read_integer("hop_length"),
        2 * settings.read_integer("n_window"),
    )
    remainder = frames % window
    features = (frames // window) * _QWEN3_WINDOW_TOKENS
    features += (((remainder - 1) // 2 + 1 - 1) // 2 + 1 - 1) // 2 + 1
    crop = Crop(count=1, height=1, width=frames, positions=features)
    return Item(features=features, crops=(crop,))


def count_voxtral_audio(settings: Settings, samples: int) -> Item:
    """Return audio of Voxtral: whole windows after one marker.

    (``voxtral/processing_voxtral.py``, ``pad_to_multiple_of``; ``modeling_voxtral.py``,
    ``get_audio_features``.)
    """
    windows = -(-samples // _count_window_samples(settings))
    positions = settings.read_integer("positions")
    features = windows * positions // settings.read_integer("downsample_factor")
    return Item(features=features, markers=1, crops=(_build_window(settings, windows),))


def count_fixed_audio(settings: Settings, samples: int) -> Item:
    """Return audio of Gemma 3n: always as many tokens.

    Two special tokens and two tokens of blank lines stand around them
    (``gemma3n/processing_gemma3n.py``).
    """
    features = settings.read_integer("audio_seq_length")
    frames = min(samples, _count_window_samples(settings)) // settings.read_integer("hop_length")
    crop = Crop(count=1, height=1, width=frames, positions=-(-frames // 4))
    return Item(features=features, markers=4, crops=(crop,))


def count_gemma4_audio(settings: Settings, samples: int) -> Item:
    """Return audio of Gemma 4, two convolutions of two apart.

    (``gemma4/processing_gemma4.py``, ``_compute_audio_num_tokens``.)
    """
    frame, hop = settings.read_integer("frame_length"), settings.read_integer("hop_length")
    frames = max(0, (samples + frame // 2 - (frame + 1)) // hop + 1)
    tokens = frames
    for _ in range(_GEMMA_CONVOLUTIONS if frames else 0):
        tokens = (tokens + 2 - _GEMMA_KERNEL) // _GEMMA_STRIDE + 1
    tokens = min(tokens, settings.read_integer("audio_seq_length"))
    crop = Crop(count=1, height=1, width=frames, positions=tokens)
    return Item(features=tokens, markers=2, crops=(crop,))


def count_phi4_audio(settings: Settings, samples: int) -> Item:
    """Return audio of Phi-4 multimodal, compressed by eight.

    (``phi4_multimodal/feature_extraction_phi4_multimodal.py``, ``_compute_audio_embed_size``.)
    """
    hop, window = settings.read_integer("hop_length"), settings.read_integer("win_length")
    frames = max(0, (samples - window) // hop + 1) * settings.read_integer("audio_feat_stride")
    features = -(-frames // settings.read_integer("audio_compression_rate"))
    features = -(-features // settings.read_integer("audio_downsample_rate"))
    crop = Crop(count=1, height=1, width=frames, positions=features)
    return Item(features=features, crops=(crop,))


def count_wav2vec2_audio(settings: Settings, samples: int) -> Item:
    """Return the positions of wav2vec 2.0's convolutions over samples.

    (``wav2vec2/modeling_wav2vec2.py``, ``_get_feat_extract_output_lengths``.)
    """
    kernels, strides = settings.read_integers("conv_kernel"), settings.read_integers("conv_stride")
    positions = _convolve(samples, zip(kernels, strides, strict=False))
    crop = Crop(count=1, height=1, width=samples, positions=positions)
    return Item(features=positions, crops=(crop,))


def _convolve(length: int, layers: Iterable[tuple[int, int]]) -> int:
    for kernel, stride in layers:
        length = max(0, (length - kernel) // stride + 1)
    return length


def _count_window_samples(settings: Settings) -> int:
    return settings.read_integer("chunk_length") * settings.read_integer("sampling_rate")


def _count_frames(settings: Settings, samples: int) -> int:
    """Return the frames that a mask of samples keeps."""
    return -(-samples // settings.read_integer("hop_length"))


def _build_window(settings: Settings, count: int) -> Crop:
    frames = _count_window_samples(settings) // settings.read_integer("hop_length")
    return Crop(count=count, height=1, width=frames, positions=settings.read_integer("positions"))
