"""ms-swift's commands and files, as arguments of the libraries that it runs.

ms-swift 4.6, ``swift/arguments/*``, ``swift/pipelines/train/*``, ``swift/trainers/*`` and
``swift/rlhf_trainers/*``.
"""

from dataclasses import replace
from pathlib import PurePosixPath

from service.formats.launches.ms_swift.megatron_swift import KEYS, read_megatron_swift
from service.formats.launches.ms_swift.swift_engines import put_engines
from service.formats.launches.ms_swift.swift_keys import (
    MANY,
    POLICY_WITHOUT_EFFECT,
    SWIFT,
    WITHOUT_EFFECT,
)
from service.formats.launches.ms_swift.swift_methods import name_unmodelled, read_method
from service.formats.launches.ms_swift.swift_policy import read_policy
from service.formats.launches.ms_swift.swift_serving import SERVING, read_serving
from service.formats.launches.ms_swift.swift_step import (
    put_attention,
    put_batch,
    put_checkpointing,
    put_evaluation,
    put_formats,
    put_loss,
    put_optimizer,
    put_rows,
)
from service.formats.launches.sources.argv import Grammar, read_argv
from service.formats.launches.sources.commands import Command
from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.sources.reader import Reader
from service.formats.launches.trainers.launch_files import sort_files
from service.formats.launches.trainers.lowering import lower_trainer
from service.formats.launches.trainers.setup import PEFT, TRANSFORMERS, Client, TrainerSetup
from service.formats.launches.trainers.unmodelled_trainers import CRITIC_APART
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.launch import Launcher
from service.formats.launches.values.settings import Settings, make_default

_SOURCE = f"ms-swift {SWIFT}, swift/arguments"
_GRAMMAR = Grammar(many=MANY)
_FILES = frozenset({".yaml", ".yml", ".json"})
_COMMANDS = ("sft", "pt", "rlhf")
_HINT = "swift sft, pt or rlhf, or of a server by swift deploy, rollout or infer"
_CLIENTS = {
    "dpo": Client.DPO,
    "kto": Client.KTO,
    "orpo": Client.ORPO,
    "cpo": Client.CPO,
    "simpo": Client.CPO,
    "rm": Client.REWARD,
    "grpo": Client.GRPO,
}
_MEGATRON = (
    "preferences and policies on Megatron-LM have no term: megatron sft and pt have, and swift rlhf"
)
_OLD_TRL = (1, 0)
"""It needs a TRL before 1.0 (``requirements/framework.txt``)."""


def read_swift(handed_in: HandedIn, draft: Draft) -> None:
    """Read a command of ms-swift and the file that it names."""
    kind, config = _gather(handed_in, draft)
    if _is_megatron(config, handed_in):
        if kind not in {"sft", "pt"}:
            raise LaunchFormatError(_MEGATRON, where=_find_place(handed_in), field="launcher")
        _read_task(config, Client.TRAINER, draft)
        read_megatron_swift(config, _open_environment(config, handed_in), draft)
        return
    for key in sorted(KEYS):
        other = config.peek(key)
        if other is not None:
            raise other.refuse("a key of swift sft, pt or rlhf: it is one of megatron sft and pt")
    handed_in = _open_environment(config, handed_in)
    if kind in SERVING:
        read_serving(kind, config, handed_in, draft)
        return
    client = _read_client(kind, config, draft)
    name = config.take("model")
    if name is None:
        draft.ask("model", "the launch names no --model")
    else:
        draft.put("model", name.as_text(), name)
    _read_task(config, client, draft)
    model_name = None if name is None else name.as_text()
    setup = _build_setup(client, config, handed_in, model_name, draft)
    lower_trainer(setup, draft, handed_in, (*WITHOUT_EFFECT, *POLICY_WITHOUT_EFFECT))
    if draft.get("layout.context_parallel") is not None:
        draft.put("layout.context_parallel_method", "ulysses")
    if client is Client.TRAINER:
        draft.warn("logits of labelled tokens alone are made: every token is counted as one")


def _build_setup(
    client: Client, config: Settings, handed_in: HandedIn, model_name: str | None, draft: Draft
) -> TrainerSetup:
    """Return the arguments by the names of their libraries."""
    training, model = Settings(), Settings()
    adapters = read_method(config, model, draft)
    put_engines(config, training, handed_in, model, draft)
    put_batch(config, training, handed_in, client, draft)
    put_formats(config, training, model, handed_in.find_checkpoint(model_name))
    put_checkpointing(config, training, handed_in)
    put_optimizer(config, training, draft)
    put_rows(config, training, client, draft)
    put_attention(config, model, draft)
    put_evaluation(config, training, draft)
    put_loss(config, training, client, draft)
    if client.is_policy:
        read_policy(config, training, draft, adapts=len(adapters) > 0)
    name_unmodelled(config, draft)
    return TrainerSetup(
        client=client,
        model_name=model_name,
        training=training.merge(Settings(dict(config.list_left()))),
        model=model,
        adapters=adapters,
        prepares=False,
        keeps_adapters_fp32=True,
        measures=False,
        trl_before=None if client is Client.TRAINER else _OLD_TRL,
    )


def _is_megatron(config: Settings, handed_in: HandedIn) -> bool:
    """Return whether Megatron-LM trains: by the program, or by a file's keys."""
    command = handed_in.command
    if command is None:
        return any(name in config for name in KEYS)
    return command.program == "megatron" or "._megatron." in command.program


def _find_place(handed_in: HandedIn) -> str | None:
    return None if handed_in.command is None else handed_in.command.where


def _gather(handed_in: HandedIn, draft: Draft) -> tuple[str, Settings]:
    """Return the command's word, and its options over its file.

    Raises LaunchFormatError for a word that trains nothing, and for a file that is not there.
    """
    config = handed_in.arguments
    for document in sort_files(handed_in).training:
        config = config.merge(document)
    command = handed_in.command
    if command is None:
        return "rlhf" if "rlhf_type" in config else "sft", config
    options = read_argv(command.arguments, _GRAMMAR, where=command.where)
    program = PurePosixPath(command.program).name
    kind = program.rpartition(".")[2] if "." in program else None
    positional = [options.take(f"argument_{number}") for number in (1, 2)]
    places = [word for word in positional if word is not None]
    if kind in {None, "main"}:
        kind = str(places.pop(0).value) if places else ""
    if kind not in _COMMANDS and kind not in SERVING:
        message = f"swift {kind} neither trains nor serves what is read here: ask of {_HINT}"
        raise LaunchFormatError(message, where=command.where, field="launcher")
    for place in places:
        if PurePosixPath(str(place.value)).suffix in _FILES:
            if handed_in.find_document(str(place.value)) is None:
                raise place.refuse("a file that was handed in too")
            draft.note(place, "the file whose arguments are read")
        else:
            draft.ignore(place, "no option stands before it")
    return kind, Settings(dict(options.list_left())).merge(config)


def _open_environment(config: Settings, handed_in: HandedIn) -> HandedIn:
    """Return a launch with the variables that its file sets (``cli/main.py``)."""
    variables = config.take_group("ENV").take_all()
    if not variables:
        return handed_in
    named = {name: str(setting.value) for name, setting in variables.items()}
    command = handed_in.command or Command(program="swift")
    return replace(
        handed_in, command=replace(command, environment={**named, **command.environment})
    )


def _read_client(kind: str, config: Settings, draft: Draft) -> Client:
    """Return the trainer that runs.

    Raises LaunchFormatError for one that has no model here.
    """
    chosen = config.take("rlhf_type")
    if kind != "rlhf":
        if chosen is not None:
            draft.drop(chosen)
        return Client.TRAINER
    chosen = chosen or make_default("rlhf_type", "dpo", f"{_SOURCE}/rlhf_args.py")
    word = str(chosen.value)
    if word == "ppo":
        raise chosen.refuse(f"one of {', '.join(_CLIENTS)}; of ppo {CRITIC_APART}")
    client = chosen.as_choice(_CLIENTS)
    draft.note(chosen, f"the trainer is {client.value}")
    if word == "simpo":
        config.add("loss_type", make_default("loss_type", "simpo", f"{_SOURCE}/rlhf_args.py"))
    return client


def _read_task(config: Settings, client: Client, draft: Draft) -> None:
    """Account for the head of the model.

    Raises LaunchFormatError for one that has no model here.
    """
    task, labels = config.take("task_type"), config.take("num_labels")
    if task is None or client is Client.REWARD:
        for setting in (task, labels):
            if setting is not None:
                draft.drop(setting)
        return
    if str(task.value) != "causal_lm":
        raise task.refuse(
            "causal_lm; of a head of classes (seq_cls) name the model with it (fit MODEL --head "
            "sequence_classification --num-labels N) and leave task_type out: others have no term"
        )
    draft.note(task, "the model's own head")
    if labels is not None:
        draft.drop(labels)


READERS = {
    Launcher.MS_SWIFT: Reader(
        launcher=Launcher.MS_SWIFT,
        versions={"ms-swift": SWIFT, "transformers": TRANSFORMERS, "peft": PEFT},
        read=read_swift,
        programs=frozenset({"swift", "swift.cli.*", "megatron"}),
        marks=frozenset(
            {
                *("tuner_type", "train_type", "rlhf_type", "split_dataset_ratio", "attn_impl"),
                *("load_from_cache_file", "freeze_vit", "vit_gradient_checkpointing"),
                *("external_plugins", "overlong_filter", "move_model_batches", "sleep_level"),
                *("vllm_max_model_len", "advantage_estimator", "dynamic_sample", "gym_env"),
            }
        ),
    )
}
