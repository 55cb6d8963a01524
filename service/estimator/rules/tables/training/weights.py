"""Rules of what is trained: weights that are quantised, frozen modules."""

from service.estimator.model.adapters.frozen import TRAINABLE
from service.estimator.model.weights.scheme import Packing
from service.estimator.rules.grammar.conditions import (
    all_of,
    any_of,
    is_false,
    is_in,
    is_not_in,
    is_true,
    satisfies,
)
from service.estimator.rules.grammar.fields import layout, model, workload
from service.estimator.rules.grammar.rule import Rule, Topic, invalid, unmodelled
from service.estimator.rules.predicates.models import (
    casts_beside_base,
    find_unknown_kind,
    get_base_packing,
    get_training,
    leaves_kinds,
    list_module_kinds,
    names_release,
    quantizes_evenly,
    quantizes_no_stacks,
    trains_whole_decoder,
)
from service.estimator.values.workload import Method

_PEFT = "peft 0.21"

_PREPARED = f"{_PEFT} utils/other.py, prepare_model_for_kbit_training"

_PLAIN = all_of(is_false(model.quantized), is_not_in(workload.method, Method.QLORA))
"""Weights that are not quantised."""

_QUANTISED = any_of(is_true(model.quantized), is_in(workload.method, Method.QLORA))

READS_NO_GGUF = Rule(
    require=is_false(model.from_gguf),
    field="model",
    topic=Topic.MODEL,
    refusal=unmodelled(
        "training a GGUF file in framework {workload.framework}",
        "the model by its config.json",
        "framework transformers, which unpacks it",
    ),
    reason="a GGUF file, which {workload.framework} does not read",
    source="transformers 5.23, quantizers/quantizer_gguf.py",
)
"""What Megatron-LM and torchtitan are asked."""

FROZEN_MODULES = (
    Rule(
        when=is_true(layout.shard_embeddings_separately),
        require=satisfies(trains_whole_decoder, workload.method, workload.frozen),
        field=layout.shard_embeddings_separately.path,
        topic=Topic.UNITS,
        refusal=unmodelled(
            "shard_embeddings_separately of a {model.family} that is not a decoder trained as a "
            "whole",
            "false",
        ),
    ),
    Rule(
        when=is_not_in(workload.frozen, ()),
        require=satisfies(lambda case: find_unknown_kind(case) is None, workload.frozen),
        topic=Topic.FROZEN,
        refusal=invalid(
            lambda case: (
                f"frozen names {find_unknown_kind(case)!r}; this model has "
                f"{', '.join(list_module_kinds(case))}"
            )
        ),
        source="the model's own modules",
    ),
    Rule(
        when=is_not_in(workload.frozen, ()),
        require=is_in(workload.method, Method.FULL),
        field=workload.frozen.path,
        topic=Topic.FROZEN,
        refusal=invalid(
            'frozen has no meaning beside method "{workload.method}", which freezes the whole '
            'model; drop "frozen"'
        ),
        source=f"{_PEFT} peft_model.py, get_peft_model",
    ),
    Rule(
        when=is_not_in(workload.frozen, ()),
        require=satisfies(leaves_kinds, workload.frozen),
        topic=Topic.FROZEN,
        refusal=invalid(
            lambda case: (
                f"frozen names every kind of module "
                f"({', '.join(list_module_kinds(case))}): nothing is left to train"
            )
        ),
        source="the model's own modules",
    ),
)

BASE_WEIGHTS = (
    Rule(
        when=_QUANTISED,
        require=satisfies(
            names_release, workload.framework_version, workload.method, workload.double_quantization
        ),
        topic=Topic.WEIGHTS,
        refusal=invalid(
            lambda case: (
                f"framework_version {get_training(case).framework_version!r} of "
                "transformers is a release, such as 4.48.1 or 5.23"
            )
        ),
        source="transformers, its releases: they quantise experts or leave them",
    ),
    Rule(
        when=is_false(workload.double_quantization),
        require=is_in(workload.method, Method.QLORA),
        field=workload.double_quantization.path,
        topic=Topic.WEIGHTS,
        refusal=invalid('double_quantization is about the nf4 weights of method "qlora"'),
        source="arXiv:2305.14314, section 3",
    ),
    Rule(
        when=is_false(workload.double_quantization),
        require=is_in(workload.quantization_bits, 4),
        field=workload.double_quantization.path,
        topic=Topic.WEIGHTS,
        refusal=invalid(
            "double_quantization is about the scales of nf4, and quantization_bits is "
            "{workload.quantization_bits}; drop one of them"
        ),
        source="arXiv:2305.14314, section 3",
    ),
    Rule(
        when=is_not_in(workload.quantization_bits, 4),
        require=is_in(workload.method, Method.QLORA),
        field=workload.quantization_bits.path,
        topic=Topic.WEIGHTS,
        refusal=invalid('quantization_bits is of method "qlora", and method is {workload.method}'),
        source="arXiv:2305.14314, section 3",
    ),
    Rule(
        when=is_not_in(workload.quantization_bits, 4),
        require=is_in(model.packing, None),
        field=workload.quantization_bits.path,
        topic=Topic.WEIGHTS,
        refusal=invalid(
            "quantization_bits {workload.quantization_bits} quantises weights on loading, but the "
            'config packs them as {model.packing.value}; say method "lora"'
        ),
        source="transformers 5.23 quantizers/auto.py, merge_quantization_configs",
    ),
    Rule(
        when=_PLAIN,
        require=is_false(workload.fp32_norms_and_head),
        topic=Topic.WEIGHTS,
        refusal=invalid(
            "fp32_norms_and_head is for quantised weights; beside none, "
            "prepare_model_for_kbit_training casts all: fp32 says so"
        ),
        source=_PREPARED,
    ),
)

PACKED_WEIGHTS = (
    Rule(
        when=is_true(model.from_gguf),
        require=is_not_in(workload.method, Method.QLORA),
        field=workload.method.path,
        topic=Topic.WEIGHTS,
        refusal=invalid(
            'method "qlora" quantises weights on loading, which transformers does not do to a GGUF '
            'file: say "lora", or ask for the model by its config.json'
        ),
        source="transformers 5.23, quantizers/auto.py, get_hf_quantizer",
    ),
    Rule(
        when=is_in(workload.method, Method.QLORA),
        require=is_in(model.packing, None, Packing.BLOCKS_4BIT),
        field=workload.method.path,
        topic=Topic.WEIGHTS,
        refusal=invalid(
            'method "qlora" means nf4, but the config packs its weights as '
            '{model.packing.value}; say "lora"'
        ),
        source="arXiv:2305.14314, section 3",
    ),
    Rule(
        require=is_in(model.packing, None, *TRAINABLE),
        field="model",
        topic=Topic.WEIGHTS,
        refusal=unmodelled(
            "adapters on weights packed as {model.packing.value}", *TRAINABLE.values()
        ),
    ),
    Rule(
        when=all_of(is_true(workload.fp32_norms_and_head), _QUANTISED),
        require=satisfies(
            casts_beside_base, workload.method, workload.quantization_bits, model.packing
        ),
        field=workload.fp32_norms_and_head.path,
        topic=Topic.WEIGHTS,
        refusal=invalid(
            lambda case: (
                "fp32_norms_and_head has no effect: prepare_model_for_kbit_training casts nothing "
                f"beside {get_base_packing(case)}"
            )
        ),
        source=_PREPARED,
    ),
    Rule(
        when=_QUANTISED,
        require=satisfies(
            quantizes_evenly,
            workload.method,
            workload.quantization_bits,
            workload.double_quantization,
            workload.framework_version,
        ),
        field="model",
        topic=Topic.WEIGHTS,
        refusal=unmodelled(
            "training with modules that are quantised in some layers and not in others",
            "the same modules in every layer",
        ),
    ),
    Rule(
        when=_QUANTISED,
        require=satisfies(
            quantizes_no_stacks,
            workload.method,
            workload.quantization_bits,
            workload.double_quantization,
            workload.framework_version,
        ),
        field="model",
        topic=Topic.WEIGHTS,
        refusal=unmodelled("adapters beside quantised experts", "dense models", "qlora"),
    ),
)
