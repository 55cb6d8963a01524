"""Counts of videos and audio by transformers' own processors."""

from collections.abc import Callable

import numpy as np
import torch
import transformers

from tests.data.processors.stubs import Counted, make_stub


def _count_video_grid(name: str, **options: object) -> Callable[[int, int, int], Counted]:
    processor = getattr(transformers, name)(**options)

    def count(frames: int, width: int, height: int) -> Counted:
        video = torch.zeros((frames, 3, height, width), dtype=torch.uint8)
        out = processor([video], return_tensors="pt", do_sample_frames=False)
        grid = out["video_grid_thw"][0]
        tokens = int(grid.prod()) // processor.merge_size**2
        markers = 0 if name == "Qwen2VLVideoProcessor" else 2 * int(grid[0])
        return tokens, tokens + markers, int(grid[0])

    return count


VIDEOS: dict[str, Callable[[int, int, int], Counted]] = {
    "qwen2_vl": _count_video_grid("Qwen2VLVideoProcessor"),
    "qwen3_vl": _count_video_grid(
        "Qwen3VLVideoProcessor", size={"shortest_edge": 4096, "longest_edge": 25165824}
    ),
    "glm4v": _count_video_grid("Glm4vVideoProcessor"),
}


def _count_whisper_like(name: str) -> Callable[[int], Counted]:
    extractor = getattr(transformers, "WhisperFeatureExtractor")(feature_size=128)  # noqa: B009 - it is untyped
    stub = make_stub(name, feature_extractor=extractor, n_window=50, audio_token="A")

    def count(samples: int) -> Counted:
        options: dict[str, object] = {"sampling_rate": 16000, "return_attention_mask": True}
        if name == "Qwen3OmniMoeProcessor":
            options |= {"padding": True, "truncation": False}
        out, _ = stub._process_audio([np.zeros(samples, dtype=np.float32)], **options)  # noqa: SLF001 - the processor's own count
        tokens = int(out["num_audio_tokens"][0])
        return tokens, tokens, 1

    return count


def _count_phi4_audio(samples: int) -> Counted:
    extractor = transformers.Phi4MultimodalFeatureExtractor()
    out = extractor(np.zeros(samples, dtype=np.float32), sampling_rate=16000)
    tokens = int(out["audio_embed_sizes"][0])
    return tokens, tokens, 1


def _count_gemma4_audio(samples: int) -> Counted:
    extractor = transformers.Gemma4AudioFeatureExtractor()
    stub = make_stub("Gemma4Processor", feature_extractor=extractor, audio_seq_length=750)
    tokens = stub._compute_audio_num_tokens(np.zeros(samples), 16000)  # noqa: SLF001 - the processor's own count
    return tokens, tokens + 2, 1


def _count_wav2vec2(samples: int) -> Counted:
    config = transformers.Wav2Vec2Config(num_hidden_layers=1)
    with torch.device("meta"):
        model = transformers.Wav2Vec2Model(config)
    tokens = int(model._get_feat_extract_output_lengths(samples))  # noqa: SLF001 - the model's own count
    return tokens, tokens, 1


AUDIO: dict[str, Callable[[int], Counted]] = {
    "qwen2_audio": _count_whisper_like("Qwen2AudioProcessor"),
    "qwen2_5_omni": _count_whisper_like("Qwen2_5OmniProcessor"),
    "qwen3_omni_moe": _count_whisper_like("Qwen3OmniMoeProcessor"),
    "phi4_multimodal": _count_phi4_audio,
    "gemma4": _count_gemma4_audio,
    "wav2vec2": _count_wav2vec2,
}
