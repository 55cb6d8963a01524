"""Say which GPUs, how many and in which layout, on one or several kinds; what is not said is
searched; offline unless told.
"""

import argparse
import sys
from importlib import import_module
from typing import Any

from service.base.errors import InvalidRequestError
from service.cli.answer_source import Source, add_source, answer_question, get_source, tell_source
from service.cli.commands.schedulers.formats import (
    add_format,
    print_candidate,
    read_formats,
)
from service.cli.confidence import add_search_confidence, get_confidence
from service.cli.flags import add_gpu_memory, add_question, build_workload, read_gpu_memory
from service.cli.launch.questions import add_launch, take_launch, tell_bound
from service.cli.model_files.naming import get_model, name_model
from service.cli.printing import print_json
from service.cli.starting_load import assume_starting_load
from service.terminal.arguments import DOES_NOT_FIT, FITS, format_choices, make_choice_reader
from service.terminal.controls import spell_controls

_OBJECTIVES = ("fewest_gpus", "cheapest", "fastest")
_COUNTS = {
    "max_gpus": "largest number to try (default 1024)",
    "max_nodes": "largest number of nodes",
    "global_batch_size": "sequences of one optimizer step",
    "min_num_sequences": "sequences that all replicas serve at once",
}
_AMOUNTS = {
    "max_cost_per_hour": "USD per hour of all GPUs",
    "max_step_time_s": "seconds of one optimizer step",
    "max_hours": "hours for --num-tokens",
    "max_prefill_time_s": "seconds until all prompts are read",
    "max_time_per_output_token_s": "seconds of one decode step",
    "min_tokens_per_second": "of the whole job, or of all replicas",
}
_LISTS = {
    "frameworks": (
        "ways to train that may be used: ddp, deepspeed, fsdp1, fsdp2 (of transformers), "
        "torchtitan, megatron"
    ),
    "allow": "what is used only when it is allowed: offload, quantization",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the model, GPUs, workload, layout, objective and search limits.

    What the flags fix of the layout is not searched.
    """
    add_question(parser, usage="%(prog)s MODEL --gpus GPU[,GPU …] --task train|serve [WORD …]")
    add_launch(parser, starts=True)
    parser.add_argument(
        "--gpus",
        metavar="GPU,…",
        help="names, aliases or families, in the order in which you would like them",
    )
    add_gpu_memory(parser)
    parser.add_argument(
        "--cluster", metavar="NAME", help="in place of --gpus: a cluster of the server"
    )
    search = parser.add_argument_group("search")
    search.add_argument(
        "--objective",
        type=make_choice_reader(_OBJECTIVES),
        metavar=format_choices(_OBJECTIVES),
        help="what the plan is best at",
    )
    for name, text in _COUNTS.items():
        search.add_argument(_format_option(name), type=int, metavar="N", help=text)
    for name, text in _AMOUNTS.items():
        search.add_argument(_format_option(name), type=float, metavar="N", help=text)
    for name, text in _LISTS.items():
        search.add_argument(_format_option(name), metavar="WORD,…", help=text)
    search.add_argument(
        "--price",
        action="append",
        metavar="GPU=USD",
        help="USD per GPU hour, in place of the price book's",
    )
    search.add_argument(
        "--pareto", action="store_true", help="the front of memory, time and cost as well"
    )
    add_search_confidence(search)
    add_format(parser, "print the best plan alone, as this scheduler's client reads it")
    parser.add_argument(
        "--json", action="store_true", help="print the answer as POST /v1/plans sends it"
    )
    add_source(parser, "stored models and clusters")


def run(options: argparse.Namespace) -> int:
    """Print the answer.

    The code is 0 when there is a plan, 1 when nothing is enough.
    """
    source = get_source(options)
    take_launch(options, source, keeps_layout=False, bounds=True)
    assume_starting_load(options, engine="vllm")
    tell_bound(options, "at least these GPUs")
    result = answer_question("plan", _build_document(options, source), source)
    if options.json:
        print_json(result)
    elif options.format is not None:
        return _print_format(options.format, result)
    else:
        # As for a fit: who reads JSON does not wait for tables.
        import_module("service.cli.views.plan").show_plan(str(name_model(options)), result)
    tell_source(source, is_json=options.json)
    return DOES_NOT_FIT if result["num_gpus"] is None else FITS


def _print_format(word: str, result: dict[str, Any]) -> int:
    """Print the best plan in a format, or why there is none."""
    if not result["candidates"]:
        sys.stderr.write(
            f"headroom: there is no plan to print: {spell_controls(result['reason'])}\n"
        )
        return DOES_NOT_FIT
    print_candidate(word, result["candidates"][0])
    return FITS


def _build_document(options: argparse.Namespace, source: Source) -> dict[str, object]:
    constraints = {name: getattr(options, name) for name in (*_COUNTS, *_AMOUNTS)}
    constraints |= {name: _split(getattr(options, name)) for name in _LISTS}
    document = {
        "model": get_model(options),
        **build_workload(options),
        **_read_gpus(options, source),
        "constraints": {name: value for name, value in constraints.items() if value is not None},
        "confidence": get_confidence(options),
        "pareto": options.pareto,
    }
    if options.objective is not None:
        document["objective"] = options.objective
    document |= read_formats(options)
    return document | ({"prices": dict(map(_parse_price, options.price))} if options.price else {})


def _read_gpus(options: argparse.Namespace, source: Source) -> dict[str, object]:
    named = [*(_split(options.gpus) or ()), *read_gpu_memory(options)]
    if bool(named) == (options.cluster is not None):
        message = (
            "which GPUs? give either --gpus NAME,NAME, --gpu-memory 80Gi or both, or --cluster NAME"
        )
        raise InvalidRequestError(message)
    if options.cluster is None:
        return {"gpus": named}
    if source.url is None:
        message = "clusters are stored on a server; say which with --server URL or HEADROOM_URL"
        raise InvalidRequestError(message)
    return {"cluster": options.cluster}


def _split(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def _parse_price(text: str) -> tuple[str, float]:
    name, equals, price = text.partition("=")
    try:
        return name, float(price)
    except ValueError:
        value = price if equals else text
        message = f"--price takes GPU=USD, such as H100-SXM5-80GB=2.5; {value!r} is no number"
        raise InvalidRequestError(message) from None


def _format_option(name: str) -> str:
    return "--" + name.replace("_", "-")
