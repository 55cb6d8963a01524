"""Defaults of processors of audio.

As in ``defaults``, what the model fixes comes from its config.
"""

from service.estimator.processors.defaults import Config, Fields, get_integer, read_section

_WAV2VEC2_KERNELS, _WAV2VEC2_STRIDES = [10, 3, 3, 3, 3, 2, 2], [5, 2, 2, 2, 2, 2, 2]


def build_gemma3n_audio(config: Config) -> Fields:
    """Return the fields of a Gemma 3n's audio, cut at 30 seconds."""
    tokens = get_integer(config, "audio_soft_tokens_per_image", 188)
    return {**_build_window(0), "audio_seq_length": tokens}


def build_whisper_audio(config: Config) -> Fields:
    """Return the fields of a window of Whisper's encoder."""
    path = "audio_config.max_source_positions"
    positions = get_integer(config, path, get_integer(config, "max_source_positions", 1500))
    return _build_window(positions)


def build_voxtral_audio(config: Config) -> Fields:
    """Return the fields of a Voxtral's audio."""
    wide, hidden = (
        get_integer(config, "audio_config.intermediate_size", 5120),
        get_integer(config, "audio_config.hidden_size", 1280),
    )
    return {**build_whisper_audio(config), "downsample_factor": wide // hidden}


def build_omni_audio(config: Config) -> Fields:
    """Return the fields of a Qwen omni model's audio."""
    audio = read_section(read_section(config, "thinker_config"), "audio_config")
    positions = get_integer(audio, "max_source_positions", 1500)
    return {**_build_window(positions), "n_window": get_integer(audio, "n_window", 50)}


def build_gemma4_audio(_config: Config) -> Fields:
    """Return the fields of a Gemma 4's audio: frames of 20 ms."""
    return {"frame_length": 320, "hop_length": 160, "audio_seq_length": 750, "sampling_rate": 16000}


def build_phi4_audio(_config: Config) -> Fields:
    """Return the fields of a Phi-4 multimodal's audio."""
    return {
        "hop_length": 160,
        "win_length": 400,
        "audio_feat_stride": 1,
        "audio_compression_rate": 8,
        "audio_downsample_rate": 1,
        "sampling_rate": 16000,
    }


def build_wav2vec2_audio(config: Config) -> Fields:
    """Return the convolutions of a wav2vec 2.0."""
    return {
        "conv_kernel": config.get("conv_kernel") or _WAV2VEC2_KERNELS,
        "conv_stride": config.get("conv_stride") or _WAV2VEC2_STRIDES,
        "sampling_rate": 16000,
    }


def _build_window(positions: int) -> Fields:
    """Return a window of 30 seconds, a frame every 10 ms."""
    return {
        "chunk_length": 30,
        "sampling_rate": 16000,
        "hop_length": 160,
        "positions": positions,
    }
