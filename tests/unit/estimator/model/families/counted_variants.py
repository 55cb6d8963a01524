"""Dense variants with their counted parameters and live bytes."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """A model of transformers 5.23 built from ``changes``: its parameters, and the live bytes of
    its first step.

    Two sequences of 64 tokens with eager attention, on a CPU, weights and gradients of earlier
    steps not counted: the peak of forward and of the loss's backward, in fp32 without checkpointing
    and in bf16 with it.
    """

    changes: Mapping[str, object]
    parameters: int
    fp32: tuple[int, int]
    checkpointed: tuple[int, int]


def _counted(
    parameters: int, fp32: tuple[int, int], checkpointed: tuple[int, int], **changes: object
) -> Counted:
    return Counted(changes=changes, parameters=parameters, fp32=fp32, checkpointed=checkpointed)


_WINDOW = {"sliding_window": 16}
ROWS = (
    _counted(524608, (8704840, 11774776), (4049224, 5583160), model_type="gemma", head_dim=32),
    _counted(
        525376,
        (11823032, 14892968),
        (4833720, 6367656),
        model_type="gemma2",
        head_dim=32,
        **_WINDOW,
    ),
    _counted(
        525760,
        (10716488, 13786424),
        (4073800, 5607736),
        model_type="gemma3_text",
        head_dim=32,
        sliding_window_pattern=3,
        **_WINDOW,
    ),
    _counted(
        451072, (8446544, 11516480), (4077904, 5611840), model_type="cohere", use_qk_norm=True
    ),
    _counted(450496, (7543376, 10613312), (4094288, 5628224), model_type="cohere2", **_WINDOW),
    _counted(
        642880,
        (7906888, 10976824),
        (4044872, 5578808),
        model_type="ministral",
        head_dim=16,
        layer_types=["sliding_attention", "full_attention"] * 3,
        **_WINDOW,
    ),
    _counted(
        643648,
        (7906888, 10976824),
        (4044872, 5578808),
        model_type="qwen2",
        use_sliding_window=True,
        max_window_layers=2,
        **_WINDOW,
    ),
    _counted(
        643072,
        (8515144, 11585080),
        (4044872, 5578808),
        model_type="qwen3",
        head_dim=16,
        use_sliding_window=True,
        max_window_layers=4,
        **_WINDOW,
    ),
    _counted(
        450880,
        (7906888, 10976824),
        (4044872, 5578808),
        model_type="smollm3",
        use_sliding_window=True,
        **_WINDOW,
    ),
    _counted(
        587384,
        (8014040, 11083976),
        (4002008, 5535944),
        model_type="phi",
        qk_layernorm=True,
        resid_pdrop=0.1,
        embd_pdrop=0.1,
    ),
    _counted(
        642880,
        (7902792, 10972728),
        (4026440, 5560376),
        model_type="phi3",
        partial_rotary_factor=0.5,
        **_WINDOW,
    ),
    _counted(
        642944,
        (7131208, 10201144),
        (3992648, 5526584),
        model_type="stablelm",
        use_parallel_residual=True,
        hidden_dropout=0.1,
    ),
    _counted(
        643520,
        (7413832, 10483768),
        (3992648, 5526584),
        model_type="stablelm",
        use_parallel_residual=True,
        qk_layernorm=True,
    ),
    _counted(643712, (7481416, 10551352), (3992648, 5526584), model_type="stablelm"),
    _counted(643648, (7923272, 10993208), (4026440, 5560376), model_type="glm", head_dim=16),
    _counted(644416, (8715848, 11785784), (4026440, 5560376), model_type="glm4", head_dim=16),
    _counted(582272, (6503752, 9573688), (3993800, 5527736), model_type="nemotron", head_dim=16),
    _counted(642048, (7487560, 10557496), (4016712, 5550648), model_type="olmo"),
    _counted(642048, (7880776, 10950712), (4016712, 5550648), model_type="olmo", clip_qkv=8.0),
    _counted(643456, (8502856, 11572792), (4048968, 5582904), model_type="olmo2"),
    _counted(
        644032, (7907000, 10976936), (4028600, 5562536), model_type="granite", attention_bias=True
    ),
    _counted(
        392768,
        (7594056, 10663992),
        (4003912, 5537848),
        model_type="starcoder2",
        residual_dropout=0.1,
        embedding_dropout=0.1,
        attention_dropout=0.1,
        **_WINDOW,
    ),
    _counted(642880, (7906888, 10976824), (4028488, 5562424), model_type="mistral", **_WINDOW),
)
