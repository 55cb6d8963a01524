"""Which class of transformers is built from a config that does not name one."""

from typing import Any

import pytest

from service.probing.refusal import Refusal
from worker.probes.architecture.static import count_parameters
from worker.probes.models.model_class import build_config, find_class


@pytest.mark.parametrize(
    ("model_type", "name"),
    [
        ("clip", "CLIPModel"),
        ("musicgen", "MusicgenForConditionalGeneration"),
        ("rt_detr", "RTDetrForObjectDetection"),
        ("siglip_text_model", "SiglipTextModel"),
        ("rag", "RagModel"),
        ("internlm3", "LlamaForCausalLM"),
    ],
)
def test_a_type_has_a_class_built_from_its_own_config(model_type: str, name: str) -> None:
    """Musicgen's causal model is built from its decoder's config, and no table has parts."""
    model_class = find_class({"model_type": model_type})

    assert model_class.__name__ == name


def test_a_part_without_a_class_is_refused() -> None:
    """SAM's mask decoder is a module of a model, and no model itself."""
    with pytest.raises(Refusal, match="has no model of 'sam_mask_decoder'"):
        find_class({"model_type": "sam_mask_decoder"})


def test_infinities_are_read_as_transformers_writes_them() -> None:
    """JSON has no infinity: transformers 5 saves an object in its place."""
    config: dict[str, Any] = {
        "model_type": "mamba2",
        "time_step_limit": [0.0, {"__float__": "Infinity"}],
    }

    assert list(build_config(config).time_step_limit) == [0.0, float("inf")]


def test_no_layer_is_dropped_at_random() -> None:
    """M2M-100 leaves out one of twenty layers in a step of training, another each time."""
    assert build_config({"model_type": "m2m_100"}).encoder_layerdrop == 0


def test_parts_without_the_kernel_have_their_own() -> None:
    """LightGlue attends by SDPA, and the points it matches come from convolutions."""
    counts = count_parameters({"model_type": "lightglue"})

    assert counts["total"] == 13_744_594


def test_a_field_that_differs_by_layer_is_that_of_the_first() -> None:
    """Full attention of Gemma 4 has wider heads, which its config hands out layer by layer."""
    model = {"model_type": "gemma4_text", "num_hidden_layers": 6, "hidden_size": 64}
    sizes = {"vocab_size": 100, "vocab_size_per_layer_input": 100, "intermediate_size": 64}

    document = count_parameters(model | sizes)["document"]

    assert isinstance(document, dict)
    assert document["spec"]["head_dim"] == 256
