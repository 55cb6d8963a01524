"""Predicates of rules about a model's modules."""

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType

from service.estimator.memory.adapter_bases import UPCAST, resolve_base_weights
from service.estimator.memory.kv_cache import find_state_mixer
from service.estimator.memory.lengths import (
    count_decoder_positions,
    count_frames,
    count_start_tokens,
    resolve_decoder_length,
)
from service.estimator.model.architecture import Architecture
from service.estimator.model.quantization.weights import inspect_placements, select_scheme
from service.estimator.model.recorded.narrowing import is_recorded
from service.estimator.model.trees.encoder_decoder import EncoderDecoder
from service.estimator.model.weights.scheme import Packing, Scope
from service.estimator.rules.grammar.facts import Case
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.heads import Head
from service.estimator.values.workload import (
    Engine,
    Method,
    Quantization,
    ServeWorkload,
    TrainWorkload,
)


def get_training(case: Case) -> TrainWorkload:
    """Return the workload of a case of training."""
    assert isinstance(case.workload, TrainWorkload)  # noqa: S101 - whom its tables are asked by
    return case.workload


def get_serving(case: Case) -> ServeWorkload:
    """Return the workload of a case of serving."""
    assert isinstance(case.workload, ServeWorkload)  # noqa: S101 - whom its tables are asked by
    return case.workload


def get_two_stacks(case: Case) -> EncoderDecoder:
    """Return a model with an encoder before its decoder."""
    assert isinstance(case.model.tree, EncoderDecoder)  # noqa: S101 - what its rules apply to
    return case.model.tree


def has_unscaled_hidden(case: Case) -> bool:
    """Return whether the head takes the last hidden state as it is."""
    tree = case.model.tree
    finishes = (tree.finish_body, tree.finish_hidden, tree.finish_logits)
    return finishes == (None,) * 3 and not tree.head.bias


def has_unscaled_logits(case: Case) -> bool:
    """Return whether logits go to the loss as the head makes them."""
    return case.model.tree.finish_logits is None


def has_backbone_hidden(case: Case) -> bool:
    """Return whether the head reads what a text decoder's backbone returns."""
    tree = case.model.tree
    return is_text_decoder(case) and tree.finish_body is None and tree.finish_hidden is None


def describe_reader(case: Case) -> str:
    """Return what a model is that writes no tokens."""
    model = case.model
    return (
        f"{model.family} with head {model.head}" if model.head else f"{model.family}, an encoder,"
    )


def is_packable(case: Case) -> bool:
    """Return whether attention alone tells a text decoder's sequences apart."""
    return is_text_decoder(case) and not case.model.tree.recurrent


def trains_whole_decoder(case: Case) -> bool:
    """Return whether every weight of a plain decoder is trained."""
    workload, tree = get_training(case), case.model.tree
    is_plain = type(tree) is Architecture and not tree.stem
    return workload.method is Method.FULL and not workload.frozen and is_plain


_ENGINE_ENCODERS: Mapping[Engine, frozenset[str]] = MappingProxyType(
    {
        Engine.VLLM: frozenset({"bert", "modernbert", "roberta", "xlm-roberta"}),
        Engine.SGLANG: frozenset({"bert", "xlm-roberta"}),
    }
)
_ENGINE_HEADS = frozenset({Head.NONE, Head.SEQUENCE_CLASSIFICATION})


def has_engine_encoder(case: Case) -> bool:
    """Return whether an engine has an encoder with its head."""
    families = _ENGINE_ENCODERS.get(get_serving(case).engine, frozenset())
    task = case.model.tree.task
    return case.model.family in families and task is not None and task.kind in _ENGINE_HEADS


def has_pooled_head(case: Case) -> bool:
    """Return whether an encoder has a head that an engine pools for.

    Other models have none that it could lack.
    """
    families = _ENGINE_ENCODERS.get(get_serving(case).engine, frozenset())
    return case.model.family not in families or has_engine_encoder(case)


def shares_states(case: Case) -> bool:
    """Return whether ranks share the states of layers evenly."""
    ranks = case.layout.tensor_parallel
    if ranks == 1:
        return True
    tree = case.model.tree
    if is_recorded(tree):
        # Questions about families written by hand load no recordings.
        ranked = import_module("service.estimator.model.recorded.rank_layers")
        return tree.recorded.model_class.startswith("Qwen3_5") and all(
            ranked.shares_delta_states(layer, ranks) for layer in tree.recorded.layers
        )
    mixers = (find_state_mixer(block) for block, _ in tree.blocks)
    known = [mixer for mixer in mixers if mixer is not None]
    return bool(known) and all(mixer.splits_over(ranks) for mixer in known)


def has_engine_speech(case: Case) -> bool:
    """Return whether an engine has a speech model."""
    return case.model.family == "whisper" and get_serving(case).engine is Engine.VLLM


def is_text_decoder(case: Case) -> bool:
    """Return whether a model is a decoder that reads text alone."""
    tree = case.model.tree
    is_plain = type(tree) is Architecture or (is_recorded(tree) and tree.recorded.has_plain_loss)
    return is_plain and tree.shifts_labels and tree.images is None


def has_plain_loss(case: Case) -> bool:
    """Return whether a recording ends in cross entropy on its head's logits."""
    tree = case.model.tree
    return is_recorded(tree) and tree.recorded.has_plain_loss


def has_served_passes(case: Case) -> bool:
    """Return whether a recording has passes that serve."""
    tree = case.model.tree
    if not is_recorded(tree):
        return False
    return tree.recorded.has_one_pass or (
        any(name.endswith("/decode") for name in tree.recorded.passes)
        and any(layer.cache_elements for layer in tree.recorded.layers)
    )


def list_module_kinds(case: Case) -> list[str]:
    """Return the kinds of modules that a model has, sorted."""
    return sorted(case.model.tree.parameter_counts().by_module)


def find_unknown_kind(case: Case) -> str | None:
    """Return the first frozen kind that the model has not."""
    kinds = list_module_kinds(case)
    return next((kind for kind in get_training(case).frozen if kind not in kinds), None)


def leaves_kinds(case: Case) -> bool:
    """Return whether some kind of module is not frozen."""
    return not set(list_module_kinds(case)) <= set(get_training(case).frozen)


def names_release(case: Case) -> bool:
    """Return whether the version that decides what a loader quantises is one."""
    try:
        resolve_base_weights(case.model.tree, get_training(case))
    except InvalidInputError:
        return False
    return True


def quantizes_evenly(case: Case) -> bool:
    """Return whether equal layers of the base are quantised alike."""
    mixed, _ = _find_uneven(case)
    return not mixed


def quantizes_no_stacks(case: Case) -> bool:
    """Return whether no experts of the base are quantised as one stack."""
    scheme = resolve_base_weights(case.model.tree, get_training(case)).scheme
    _, stacked = _find_uneven(case)
    return not (scheme is not None and scheme.scope is Scope.ALL and stacked)


def _find_uneven(case: Case) -> tuple[bool, bool]:
    scheme = resolve_base_weights(case.model.tree, get_training(case)).scheme
    return (False, False) if scheme is None else inspect_placements(case.model.tree, scheme)


def get_base_packing(case: Case) -> Packing | None:
    """Return the format of the weights under adapters."""
    scheme = resolve_base_weights(case.model.tree, get_training(case)).scheme
    return None if scheme is None else scheme.packing


def casts_beside_base(case: Case) -> bool:
    """Return whether PEFT casts what is not quantised of the base."""
    packing = get_base_packing(case)
    return packing is None or packing in UPCAST


def contrasts_images(case: Case) -> bool:
    """Return whether a model holds images against texts."""
    images = case.model.tree.images
    return images is not None and images.contrasts


def describe_frames(case: Case) -> str:
    """Return what a model reads of audio."""
    frames = count_frames(get_two_stacks(case))
    return f"{frames}" if frames else "no audio"


def hears_frames(case: Case) -> bool:
    """Return whether audio has the one length that the model takes."""
    frames = get_training(case).audio_frames
    return frames is None or frames == count_frames(get_two_stacks(case))


def matches_encoder(case: Case) -> bool:
    """Return whether a sequence is the encoder's or the decoder's."""
    workload, length = get_training(case), get_two_stacks(case).encoder.length
    if length is None or workload.decoder_length is None:
        return True
    return workload.sequence_length in {length, workload.decoder_length}


def count_decoder_tokens(case: Case) -> int:
    """Return the tokens of a trained decoder behind an encoder."""
    workload = get_training(case)
    return resolve_decoder_length(case.model.tree, workload) or workload.sequence_length


def fits_decoder(case: Case) -> bool:
    """Return whether a trained decoder has positions for its tokens."""
    positions = count_decoder_positions(get_two_stacks(case))
    return not 0 < positions < count_decoder_tokens(case)


def count_served_tokens(case: Case) -> int:
    """Return the tokens of a served decoder behind an encoder."""
    workload = get_serving(case)
    return count_start_tokens(case.model.tree, workload) + workload.output_tokens


def fits_served_decoder(case: Case) -> bool:
    """Return whether a served decoder has positions for its tokens."""
    spec = case.model.tree.spec
    return spec.rotary or count_served_tokens(case) <= spec.max_position_embeddings


def keeps_own_format(case: Case) -> bool:
    """Return whether a word about the weights is the config's own format."""
    word = get_serving(case).quantization
    own = case.model.tree.quantization
    return word is not Quantization.NONE and select_scheme(word, case.model.tree) is own


def finds_experts(case: Case) -> bool:
    """Return whether a model has what a format for experts packs."""
    try:
        select_scheme(get_serving(case).quantization, case.model.tree)
    except NotModelledError:
        return False
    return True


def get_served_packing(case: Case) -> Packing | None:
    """Return the format of served weights."""
    scheme = select_scheme(get_serving(case).quantization, case.model.tree)
    return None if scheme is None else scheme.packing
