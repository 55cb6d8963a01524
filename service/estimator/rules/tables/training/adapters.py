"""Rules of low-rank adapters and their kin."""

from service.estimator.model.adapters.stacks import MERGED
from service.estimator.rules.grammar.conditions import all_of, is_given, is_in, satisfies
from service.estimator.rules.grammar.facts import Case
from service.estimator.rules.grammar.fields import layout, model, workload
from service.estimator.rules.grammar.rule import Rule, Topic, invalid, unmodelled
from service.estimator.rules.predicates.adapters import (
    adapts_beside_head,
    drops_stacks,
    drops_transposed,
    find_half,
    find_missing,
    find_padded_inputs,
    find_place,
    get_lora,
    has_known_variant,
    list_merged,
    list_other_targets,
    list_targets,
    list_wrapped,
    merges_dora,
    names,
    suits_dora,
)
from service.estimator.rules.predicates.models import get_base_packing, get_training
from service.estimator.values.layout import Sharding

_TARGETS = "workload.lora.target_modules"

_VARIANT = "workload.lora.variant"

_DROPOUT = "workload.lora.dropout"

_ADAPTED = is_given(workload.lora)

_PEFT = "peft 0.21"

ADAPTERS = (
    Rule(
        when=_ADAPTED,
        require=satisfies(lambda case: find_padded_inputs(case) is None, workload.lora),
        field="workload.peft.type",
        topic=Topic.ADAPTERS,
        refusal=unmodelled(
            lambda case: (
                f"MiSS of rank {get_lora(case).rank} on {find_padded_inputs(case)} "
                "inputs, which it pads"
            ),
            "inputs that the rank divides",
        ),
    ),
    Rule(
        when=_ADAPTED,
        require=satisfies(has_known_variant, workload.lora),
        field=_VARIANT,
        topic=Topic.ADAPTERS,
        refusal=unmodelled(
            lambda case: f"LoRA variant {get_lora(case).variant!r}", "lora", "rslora", "dora"
        ),
    ),
    Rule(
        when=_ADAPTED,
        require=satisfies(suits_dora, workload.lora, workload.method, workload.framework_version),
        field=_VARIANT,
        topic=Topic.ADAPTERS,
        refusal=unmodelled(
            lambda case: f"DoRA on weights packed as {get_packing_name(case)}",
            "DoRA on nf4 and on weights that are not quantised",
        ),
        source=f"{_PEFT} tuners/lora/gptq.py, GPTQLoraLinear",
    ),
    Rule(
        when=all_of(_ADAPTED, is_in(model.family, "gpt2")),
        require=satisfies(lambda case: not drops_transposed(case), workload.lora, workload.method),
        field=_DROPOUT,
        topic=Topic.ADAPTERS,
        refusal=unmodelled(
            lambda case: (
                f"dropout before DoRA's adapters in {get_lora(case).dtype} on transposed weights "
                "of the same format, for which PEFT makes gradients"
            ),
            *("dropout 0", "variant lora", "weights and adapters of two formats"),
        ),
        source=f"{_PEFT} utils/other.py, transpose: a view as a parameter that is trained",
    ),
    Rule(
        when=all_of(_ADAPTED, is_in(layout.sharding, Sharding.FSDP2)),
        require=satisfies(lambda case: not adapts_beside_head(case), workload.lora),
        field=_TARGETS,
        topic=Topic.ADAPTERS,
        refusal=invalid(
            lambda case: (
                f"FSDP2 trains one format in a unit, and adapters in {get_lora(case).dtype} would "
                f"stand beside a head that is trained in "
                f"{get_training(case).precision.param_dtype}; name target_modules of layers "
                f"alone, or take precision amp_bf16"
            )
        ),
        source="torch 2.13 distributed/fsdp/_fully_shard/_fsdp_param_group.py, _init_mp_dtypes",
    ),
    Rule(
        when=all_of(_ADAPTED, is_in(model.family, *MERGED)),
        require=satisfies(lambda case: not drops_stacks(case), workload.lora),
        field=_DROPOUT,
        topic=Topic.ADAPTERS,
        refusal=invalid(
            lambda case: (
                f"PEFT drops nothing before adapters on merged parameters of {case.model.family}; "
                f"say dropout 0, or name target_modules without {list_wrapped(case)}"
            )
        ),
        source=f"{_PEFT} tuners/lora/layer.py, ParamWrapper.update_layer",
    ),
    Rule(
        when=_ADAPTED,
        require=satisfies(lambda case: find_place(case) is None, workload.lora),
        field=_TARGETS,
        topic=Topic.ADAPTERS,
        refusal=invalid(
            lambda case: (
                f"target_modules names {find_place(case)!r}, the place of many modules "
                "in their lists; name layers, or say all-linear"
            )
        ),
        source=f"{_PEFT} tuners/tuners_utils.py, check_target_module_exists",
    ),
    Rule(
        when=all_of(
            _ADAPTED,
            is_in(model.family, "mamba", "mamba2", "falcon_mamba", "falcon_h1", "nemotron_h"),
        ),
        require=satisfies(lambda case: not names(case, "out_proj"), workload.lora),
        field=_TARGETS,
        topic=Topic.ADAPTERS,
        refusal=invalid(
            lambda case: (
                f"PEFT adapts no out_proj of {case.model.family}, which all-linear names "
                f"as well; use a list of {list_other_targets(case, 'out_proj')}"
            )
        ),
        source=f"{_PEFT} tuners/tuners_utils.py, _check_lora_target_modules_mamba",
    ),
    Rule(
        when=all_of(_ADAPTED, is_in(model.family, "llama4_text", "phimoe")),
        require=satisfies(lambda case: not names(case, "router"), workload.lora),
        field=_TARGETS,
        topic=Topic.ADAPTERS,
        refusal=invalid(
            lambda case: (
                f"{case.model.family}'s router returns more than its product, which no "
                f"adapter can add to; use a list of {list_other_targets(case, 'router')}"
            )
        ),
        source="transformers 5.23, Llama4Router and PhimoeTopKRouter: linear layers of a class of "
        "their own",
    ),
    Rule(
        when=all_of(_ADAPTED, is_in(model.family, *MERGED)),
        require=satisfies(lambda case: not merges_dora(case), workload.lora),
        field=_TARGETS,
        topic=Topic.ADAPTERS,
        refusal=invalid(
            lambda case: (
                f"PEFT makes no DoRA on merged parameters of {case.model.family}; name "
                f"target_modules without {list_merged(case)}"
            )
        ),
        source=f"{_PEFT} tuners/lora/layer.py, ParamWrapper",
    ),
    Rule(
        when=all_of(_ADAPTED, is_in(model.family, *MERGED)),
        require=satisfies(lambda case: find_half(case) is None, workload.lora),
        field=_TARGETS,
        topic=Topic.ADAPTERS,
        refusal=invalid(
            lambda case: (
                f"{find_half(case)} is one parameter with the other of "
                f"{' and '.join(MERGED[case.model.family].gate_up)}; name both or none"
            )
        ),
        source=f"{_PEFT} utils/transformers_weight_conversion.py",
    ),
    Rule(
        when=_ADAPTED,
        require=satisfies(lambda case: find_missing(case) is None, workload.lora),
        field=_TARGETS,
        topic=Topic.ADAPTERS,
        refusal=invalid(
            lambda case: (
                f"target_modules names {find_missing(case)!r}; this model has "
                f"{', '.join(sorted(list_targets(case)))}"
            )
        ),
        source="the model's own linear layers",
    ),
)


def get_packing_name(case: Case) -> str:
    """Return the format of the weights under adapters, as requests name it."""
    packing = get_base_packing(case)
    return "" if packing is None else packing.value
