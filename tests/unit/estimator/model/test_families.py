"""Reading config.json: what is understood, and how each refusal says what would be right."""

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules

import pytest

from service.catalog.models import list_models, load_config, resolve_model
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config, list_model_types
from service.estimator.model.families.synthetic import build_synthetic_architecture
from service.estimator.values.errors import (
    EstimatorError,
    InvalidConfigError,
    NotModelledError,
    UnknownModelTypeError,
)
from tests.accuracy.cases import parameter_cases
from tests.accuracy.heads import head_cases
from tests.builders import a_config, a_mixture, a_model
from tests.tiny_models import tiny_config
from tests.unit.estimator.model import families
from tests.unit.estimator.model.families import vision
from tests.unit.estimator.model.families.small_steps import SmallStep

_UNCOUNTED = {
    *(
        "arcee",
        "bart",
        "camembert",
        "cohere2",
        "deepseek_v3",
        "deepseek_v32",
        "exaone4",
        "falcon_h1",
    ),
    *(
        "falcon_mamba",
        "gemma",
        "glm_moe_dsa",
        "gpt_bigcode",
        "gpt_neo",
        "gptj",
        "granitemoehybrid",
        "mbart",
    ),
    *("ministral", "mistral3", "mpt", "mt5", "nemotron_h", "olmo3", "seed_oss"),
}
"""Read off the model code like the others, but the given truth counts no model of them; our own
traces of small ones agree.
"""
_READ_AS = {"kimi_k2": "deepseek_v3"}
"""Types whose config names the class of another."""
_GPT2 = {"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 2, "vocab_size": 512}


@pytest.mark.parametrize("name", [entry.name for entry in list_models()])
def test_every_config_of_the_catalogue_is_read_or_refused_with_a_reason(name: str) -> None:
    """A known model_type is read or names the switch that has no term; any other is refused by its
    name.
    """
    entry = resolve_model(name)
    config = load_config(entry)

    answer = _read(config)

    if isinstance(answer, Architecture):
        assert answer.family == _READ_AS.get(entry.model_type, entry.model_type)
    elif isinstance(answer, NotModelledError):
        assert answer.field in config
    else:
        assert entry.model_type not in list_model_types()
        assert repr(entry.model_type) in answer.message


def _read(config: Mapping[str, object]) -> Architecture | EstimatorError:
    try:
        return architecture_from_config(config)
    except EstimatorError as refusal:
        return refusal


def test_the_truth_holds_every_family() -> None:
    """Each model_type is held against a counted model, or small traced steps of its own, but for
    those that are named here.
    """
    counted = {
        load_config(entry)["model_type"]
        for entry in list_models()
        if entry.name in {c.model for c in parameter_cases()}
    }

    headed = {case.read_config()["model_type"] for case in head_cases() if case.config is not None}

    assert set(list_model_types()) - counted - headed - _traced() == _UNCOUNTED


def _traced() -> set[object]:
    """Return the model types of the small steps in the tests of families."""
    modules = [
        import_module(f"{room.__name__}.{module.name}")
        for room in (families, vision)
        for module in iter_modules(room.__path__)
        if module.name.startswith("test_")
    ]
    tables = [table for module in modules for table in vars(module).values()]
    rows = [row for table in tables if isinstance(table, tuple) for row in table]
    return {row.config["model_type"] for row in rows if isinstance(row, SmallStep)}


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"model_type": ...}, "model_type", "lacks 'model_type'"),
        ({"model_type": 7}, "model_type", "lacks 'model_type'"),
        ({"vocab_size": ...}, "vocab_size", "lacks 'vocab_size'"),
        ({"vocab_size": None}, "vocab_size", "lacks 'vocab_size'"),
        ({"hidden_size": "64"}, "hidden_size", "must be an integer of 1 or more"),
        ({"hidden_size": True}, "hidden_size", "must be an integer of 1 or more"),
        ({"num_hidden_layers": 0}, "num_hidden_layers", "must be an integer of 1 or more"),
        (
            {"num_attention_heads": 3},
            "num_attention_heads",
            "64 is not divisible by num_attention_heads 3",
        ),
        (
            {"num_attention_heads": 4, "num_key_value_heads": 3},
            "num_key_value_heads",
            "3 does not divide num_attention_heads 4",
        ),
        ({"attention_dropout": 1.5}, "attention_dropout", "a number from 0 to 1"),
        ({"attention_dropout": True}, "attention_dropout", "a number from 0 to 1"),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings", "must be true or false"),
        ({"hidden_act": 3}, "hidden_act", "must be a string"),
        ({"hidden_act": "sine"}, "activation", "known: gelu"),
        (
            {"model_type": "mixtral", "num_local_experts": 2, "num_experts_per_tok": 3},
            "num_experts_per_token",
            "between 1 and 2",
        ),
    ],
)
def test_a_wrong_field_is_named_with_what_would_be_right(
    changes: Mapping[str, object], field: str, words: str
) -> None:
    """The refusal carries the field's name and says what it must be."""
    with pytest.raises(InvalidConfigError) as refusal:
        architecture_from_config(a_config(**changes))

    assert refusal.value.field == field
    assert words in refusal.value.message


@pytest.mark.parametrize(
    ("config", "field"),
    [
        (a_config(quantization_config={"bits": 4}), "quantization_config.quant_method"),
        (
            a_config(model_type="gemma", use_bidirectional_attention=True),
            "use_bidirectional_attention",
        ),
        (_GPT2 | {"reorder_and_upcast_attn": True}, "reorder_and_upcast_attn"),
        (_GPT2 | {"add_cross_attention": True}, "add_cross_attention"),
    ],
)
def test_a_switch_without_a_term_is_refused(config: Mapping[str, object], field: str) -> None:
    """What changes the bytes in a way that is not modelled is never guessed; the refusal says what
    is modelled.
    """
    with pytest.raises(NotModelledError) as refusal:
        architecture_from_config(config)

    assert refusal.value.field == field
    assert refusal.value.modelled


def test_an_unknown_model_type_is_answered_with_the_nearest() -> None:
    """A misspelt name is met with the right one, and with all that are known."""
    with pytest.raises(UnknownModelTypeError) as refusal:
        architecture_from_config(a_config(model_type="lama"))

    assert "Did you mean 'llama'?" in refusal.value.message
    assert refusal.value.known_types == list_model_types()


def test_a_name_like_no_other_gets_no_suggestion() -> None:
    """Nothing is suggested that is not near."""
    with pytest.raises(UnknownModelTypeError) as refusal:
        architecture_from_config(a_config(model_type="xyzzy"))

    assert "Did you mean" not in refusal.value.message


def test_absent_fields_have_the_defaults_of_transformers() -> None:
    """A GPT-2 config without any number is GPT-2 small: 124,439,808 parameters."""
    model = architecture_from_config({"model_type": "gpt2"})

    assert model.parameter_counts().total == 124_439_808


@pytest.mark.parametrize(
    ("changes", "attribute", "value"),
    [
        ({"num_key_value_heads": ...}, "num_key_value_heads", 4),
        ({"head_dim": 32}, "head_dim", 32),
        ({"attention_bias": True}, "attention_output_bias", True),
        (
            {"model_type": "mistral", "num_attention_heads": 8, "num_key_value_heads": ...},
            "num_key_value_heads",
            8,
        ),
        ({"model_type": "mistral", "sliding_window": 96}, "sliding_window", 96),
        ({"model_type": "mistral", "sliding_window": None}, "sliding_window", None),
        ({"model_type": "mixtral"}, "num_experts", 8),
        ({"model_type": "qwen2"}, "attention_bias", True),
        ({"model_type": "qwen3"}, "head_dim", 128),
        ({"model_type": "qwen3"}, "query_key_norm", True),
    ],
)
def test_a_family_sets_its_switches(
    changes: Mapping[str, object], attribute: str, value: object
) -> None:
    """Each family differs from llama by what its own model code does."""
    assert getattr(architecture_from_config(a_config(**changes)).spec, attribute) == value


@pytest.mark.parametrize("size", [10**8, 10**9, 7 * 10**9, 70 * 10**9, 10**12, 2 * 10**12])
def test_a_stand_in_has_about_the_size_that_was_asked(size: int) -> None:
    """The stand-in is within a tenth of the asked size and says that it is one."""
    model = build_synthetic_architecture(size)

    assert abs(model.parameter_counts().total / size - 1) < 0.1
    assert model.spec.approximate


@pytest.mark.parametrize("size", [10**8 - 1, 2 * 10**12 + 1])
def test_no_stand_in_beyond_published_sizes(size: int) -> None:
    """Outside of the range that the shape was taken from, there is none."""
    with pytest.raises(EstimatorError, match="from 1e\\+08 to 2e\\+12"):
        build_synthetic_architecture(size)


def test_experts_count_as_active_by_their_share() -> None:
    """A token uses two of eight experts, and the router."""
    model = a_mixture()
    experts = next(iter(model.blocks))[0]
    stacked = 3 * 8 * 64 * 160

    counts = model.parameter_counts()

    assert experts.idle_parameters() == stacked * 6 // 8
    assert counts.active == counts.total - 4 * stacked * 6 // 8


def test_cutting_a_model_keeps_its_first_layers() -> None:
    """A model of two layers has two layers' parameters less than one of four."""
    model = a_model()
    per_layer = model.parameter_counts().largest_block

    cut = model.with_layers(2)

    assert cut.num_hidden_layers == 2
    assert cut.parameter_counts().total == model.parameter_counts().total - 2 * per_layer


@pytest.mark.parametrize("model_type", ["gemma3_text", "modernbert", "olmo3"])
def test_cutting_drops_the_tables_of_kinds_that_are_cut_off(model_type: str) -> None:
    """A cut model has the tables and buffers of a config with as many layers."""
    config = tiny_config(model_type)
    cut = architecture_from_config(config).with_layers(1)
    shallow = architecture_from_config({**config, "num_hidden_layers": 1})

    assert len(cut.rotary_tables) == 2
    assert (cut.rotary_tables, cut.buffer_bytes) == (shallow.rotary_tables, shallow.buffer_bytes)


@pytest.mark.parametrize("num_layers", [0, 5])
def test_a_model_cannot_be_cut_to_more_than_it_has(num_layers: int) -> None:
    """Between one layer and all of them."""
    with pytest.raises(EstimatorError, match=f"num_layers is {num_layers}; the model has 4"):
        a_model().with_layers(num_layers)


def test_a_fingerprint_tells_structures_apart_and_depths_when_asked() -> None:
    """Two depths of one structure share the fingerprint without depth, and no other change does."""
    model, cut, wider = a_model(), a_model(num_hidden_layers=2), a_model(intermediate_size=168)

    assert model.fingerprint() != cut.fingerprint()
    assert model.fingerprint(depth=False) == cut.fingerprint(depth=False)
    assert model.fingerprint(depth=False) != wider.fingerprint(depth=False)


def test_a_tied_head_is_counted_once() -> None:
    """Tying saves the head's table."""
    tied, untied = a_model(tie_word_embeddings=True), a_model()

    assert untied.parameter_counts().total - tied.parameter_counts().total == 512 * 64
    assert tied.tied
    assert "lm_head" not in tied.parameter_counts().by_module
