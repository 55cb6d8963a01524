"""Families: what is said to be modelled is answered, and what is said to be refused is refused."""

import pytest

from service.catalog.families import FamilyEntry, list_families
from service.catalog.gpus import resolve_device
from service.catalog.models import find_model, list_models, load_architecture
from service.estimator.estimate import estimate
from service.estimator.model.families.registry import architecture_from_config, list_model_types
from service.estimator.rules.capabilities import build_plain_workload
from service.estimator.values.errors import EstimatorError
from service.estimator.values.layout import Layout
from service.estimator.values.result import Detail

GPU = resolve_device("H200")
SMALL = {"bert": "bert-base", "gpt2": "gpt2", "qwen2": "qwen2.5-0.5b", "mamba": "mamba-130m"}


def get_family(name: str) -> FamilyEntry:
    """Return a family by name."""
    return next(entry for entry in list_families() if entry.name == name)


def test_every_model_type_and_every_model_is_there() -> None:
    """The list is the registry's, and each model of the catalogue belongs to its family."""
    names = [family.name for family in list_families()]
    models = [model for family in list_families() for model in family.models]

    assert names == list(list_model_types())
    assert sorted(models) == sorted(
        entry.name for entry in list_models() if entry.model_type in names
    )


@pytest.mark.parametrize("name", SMALL)
def test_what_is_listed_is_what_the_estimator_answers(name: str) -> None:
    """Every framework with every method and every engine: an answer where one is promised, the
    refusal that is quoted where not.
    """
    entry = find_model(SMALL[name])
    assert entry is not None
    model = load_architecture(entry)

    for one in get_family(name).capabilities:
        refusal = None
        try:
            estimate(
                model,
                build_plain_workload(one),
                layout=Layout(),
                device=GPU,
                detail=Detail.NUMBERS,
            )
        except EstimatorError as error:
            refusal = error.message
        assert refusal == one.refusal, (name, one.runner, one.method)


def test_families_differ_in_what_is_modelled() -> None:
    """A decoder is served by every engine, an encoder by those that pool, and Megatron-LM trains a
    few.
    """
    llama, bert = get_family("llama"), get_family("bert")

    assert {"transformers", "vllm", "sglang", "tensorrt_llm", "llama_cpp"} <= set(llama.serving)
    assert llama.training["megatron"] == ("full",)
    assert "megatron" not in bert.training
    assert bert.serving == ("transformers", "vllm", "sglang")
    assert get_family("distilbert").serving == ("transformers",)
    assert llama.group == "dense"


def test_a_family_without_a_model_of_the_catalogue_is_looked_at_by_its_defaults() -> None:
    """Whoever adds a family need not add a model."""
    empty = [family for family in list_families() if not family.models]

    assert empty
    assert all(family.training for family in empty)
    assert architecture_from_config({"model_type": "ministral", "head_dim": 128}).family in {
        family.name for family in empty
    }
