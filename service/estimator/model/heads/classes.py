"""Classes of transformers 5.23 by family and head.

They are those of ``models/auto/modeling_auto.py``. A config's ``architectures`` names one of them.
"""

from collections.abc import Mapping

from service.estimator.values.heads import Head

_SUFFIXES = {
    Head.NONE: "Model",
    Head.CAUSAL_LM: "ForCausalLM",
    Head.MASKED_LM: "ForMaskedLM",
    Head.SEQ2SEQ_LM: "ForConditionalGeneration",
    Head.SEQUENCE_CLASSIFICATION: "ForSequenceClassification",
    Head.TOKEN_CLASSIFICATION: "ForTokenClassification",
    Head.QUESTION_ANSWERING: "ForQuestionAnswering",
    Head.IMAGE_CLASSIFICATION: "ForImageClassification",
}
_DECODER = (Head.CAUSAL_LM, Head.NONE)
_SEQUENCES = (*_DECODER, Head.SEQUENCE_CLASSIFICATION)
_TOKENS = (*_SEQUENCES, Head.TOKEN_CLASSIFICATION)
_ANSWERS = (*_SEQUENCES, Head.QUESTION_ANSWERING)
_TEXT = (*_TOKENS, Head.QUESTION_ANSWERING)
_ENCODER = (Head.MASKED_LM, Head.NONE, *_TEXT[2:])

_FAMILIES: Mapping[str, tuple[str, tuple[Head, ...]]] = {
    "arcee": ("Arcee", _TEXT),
    "bamba": ("Bamba", _DECODER),
    "bart": ("Bart", (Head.SEQ2SEQ_LM,)),
    "bert": ("Bert", _ENCODER),
    "bloom": ("Bloom", _TEXT),
    "camembert": ("Camembert", _ENCODER),
    "codegen": ("CodeGen", _DECODER),
    "cohere": ("Cohere", _DECODER),
    "cohere2": ("Cohere2", _DECODER),
    "deepseek_v2": ("DeepseekV2", _SEQUENCES),
    "deepseek_v3": ("DeepseekV3", _TOKENS),
    "deepseek_v32": ("DeepseekV32", _DECODER),
    "distilbert": ("DistilBert", _ENCODER),
    "electra": ("Electra", _ENCODER),
    "exaone4": ("Exaone4", _TEXT),
    "falcon": ("Falcon", _TEXT),
    "falcon_h1": ("FalconH1", _DECODER),
    "falcon_mamba": ("FalconMamba", _DECODER),
    "gemma": ("Gemma", _TOKENS),
    "gemma2": ("Gemma2", _TOKENS),
    "gemma3": ("Gemma3", (Head.SEQ2SEQ_LM,)),
    "gemma3_text": ("Gemma3Text", _SEQUENCES),
    "glm": ("Glm", _TOKENS),
    "glm4": ("Glm4", _TOKENS),
    "glm4_moe": ("Glm4Moe", _DECODER),
    "glm_moe_dsa": ("GlmMoeDsa", _DECODER),
    "gpt2": ("GPT2", _TEXT),
    "gpt_bigcode": ("GPTBigCode", _TOKENS),
    "gpt_neo": ("GPTNeo", _TEXT),
    "gpt_neox": ("GPTNeoX", _TEXT),
    "gpt_oss": ("GptOss", _TOKENS),
    "gptj": ("GPTJ", _ANSWERS),
    "granite": ("Granite", _DECODER),
    "granitemoe": ("GraniteMoe", _DECODER),
    "granitemoehybrid": ("GraniteMoeHybrid", _DECODER),
    "jamba": ("Jamba", _SEQUENCES),
    "llama": ("Llama", _TEXT),
    "llama4_text": ("Llama4Text", _DECODER),
    "llava": ("Llava", (Head.SEQ2SEQ_LM,)),
    "mamba": ("Mamba", _DECODER),
    "mamba2": ("Mamba2", _DECODER),
    "mbart": ("MBart", (Head.SEQ2SEQ_LM,)),
    "ministral": ("Ministral", _TEXT),
    "mistral": ("Mistral", _TEXT),
    "mistral3": ("Mistral3", (Head.SEQ2SEQ_LM,)),
    "mixtral": ("Mixtral", _TEXT),
    "modernbert": ("ModernBert", _ENCODER),
    "mpt": ("Mpt", _TEXT),
    "mt5": ("MT5", (Head.SEQ2SEQ_LM,)),
    "nemotron": ("Nemotron", _TEXT),
    "nemotron_h": ("NemotronH", _DECODER),
    "olmo": ("Olmo", _SEQUENCES),
    "olmo2": ("Olmo2", _SEQUENCES),
    "olmo3": ("Olmo3", _SEQUENCES),
    "olmoe": ("Olmoe", _DECODER),
    "opt": ("OPT", _ANSWERS),
    "phi": ("Phi", _TOKENS),
    "phi3": ("Phi3", _TOKENS),
    "phimoe": ("Phimoe", _SEQUENCES),
    "qwen2": ("Qwen2", _TEXT),
    "qwen2_5_vl": ("Qwen2_5_VL", (Head.SEQ2SEQ_LM,)),
    "qwen2_moe": ("Qwen2Moe", _TEXT),
    "qwen2_vl": ("Qwen2VL", (Head.SEQ2SEQ_LM,)),
    "qwen3": ("Qwen3", _TEXT),
    "qwen3_moe": ("Qwen3Moe", _TEXT),
    "qwen3_next": ("Qwen3Next", _TEXT),
    "roberta": ("Roberta", _ENCODER),
    "scaled": ("Llama", _TEXT),
    "seed_oss": ("SeedOss", _TEXT),
    "smollm3": ("SmolLM3", _TEXT),
    "stablelm": ("StableLm", _TOKENS),
    "starcoder2": ("Starcoder2", _TOKENS),
    "t5": ("T5", (Head.SEQ2SEQ_LM,)),
    "vit": ("ViT", (Head.IMAGE_CLASSIFICATION,)),
    "whisper": ("Whisper", (Head.SEQ2SEQ_LM,)),
    "xlm-roberta": ("XLMRoberta", _ENCODER),
    "zamba2": ("Zamba2", _SEQUENCES),
}
"""model_type → beginning of its classes' names, and the heads that are modelled; a model of which
only the size is known is a llama.
"""
_IRREGULAR = {
    ("gemma3_text", Head.CAUSAL_LM): "Gemma3ForCausalLM",
    ("gpt2", Head.CAUSAL_LM): "GPT2LMHeadModel",
    ("llama4_text", Head.CAUSAL_LM): "Llama4ForCausalLM",
}
_FORMER: Mapping[str, Mapping[str, Head]] = {
    "llama": {"LLaMAForCausalLM": Head.CAUSAL_LM},
    "mpt": {"MPTForCausalLM": Head.CAUSAL_LM},
    "t5": {"T5WithLMHeadModel": Head.SEQ2SEQ_LM},
}
"""Names in published configs of classes that transformers has under another name by now: those of
huggyllama's first weights, of MosaicML's own code, and of transformers 2.
"""


def list_classes(model_type: str) -> Mapping[str, Head]:
    """Return the classes of a family by name, the language model first.

    Empty for a family of images and texts, which names its own.
    """
    if model_type not in _FAMILIES:
        return {}
    prefix, heads = _FAMILIES[model_type]
    return {
        _IRREGULAR.get((model_type, head), f"{prefix}{_SUFFIXES[head]}"): head for head in heads
    }


def list_known_names(model_type: str) -> Mapping[str, Head]:
    """Return every name that a config may give a family's classes."""
    return {**list_classes(model_type), **_FORMER.get(model_type, {})}
