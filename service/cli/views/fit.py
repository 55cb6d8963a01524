"""A fit answer on a terminal.

The verdict in one line, what it is made of, what would help, what was assumed.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table

from service.cli.views.evidence import iter_evidence
from service.cli.views.phrases import format_assumptions, format_change
from service.cli.views.tables import add_title, make_console, make_table, show_bytes

Document = Mapping[str, Any]
VERDICTS = {"fits": "fits", "tight": "is tight", "does_not_fit": "does not fit"}
_STYLES = {"fits": "bold green", "tight": "bold yellow", "does_not_fit": "bold red"}


def show_fit(subject: str, answer: Document) -> None:
    """Print the answer about ``subject``.

    ``subject`` names the model and the GPU.
    """
    screen = make_console()
    verdict = answer["verdict"]
    headline = f"{escape(subject)}: [{_STYLES[verdict]}]{VERDICTS[verdict]}[/]"
    screen.print(headline, soft_wrap=True, markup=True)
    screen.print(describe_balance(answer), soft_wrap=True)
    for part in _iter_tables(answer):
        screen.print(part)
    for line in _iter_lines(answer):
        screen.print(line, markup=False)


def describe_balance(answer: Document) -> str:
    """Return what a GPU needs and has, in a line."""
    per_gpu = answer["per_gpu"]
    low, high = per_gpu["intervals"]["device"]
    level = per_gpu["intervals"]["level"]
    serving = answer["serving"]
    has_pool = serving is not None and serving["kv_pool_bytes"] is not None
    remaining_bytes = (
        serving["budget_bytes"] - serving["required_bytes"]
        if has_pool
        else answer["headroom_bytes"] - answer["deficit_bytes"]
    )
    balance = (
        f"{show_bytes(-remaining_bytes)} too much"
        if remaining_bytes < 0
        else f"{show_bytes(remaining_bytes)} left"
    )
    if has_pool:
        required = (
            f"{show_bytes(serving['required_bytes'])} per GPU, of the engine's budget of "
            f"{show_bytes(serving['budget_bytes'])}"
        )
        if remaining_bytes >= 0 and answer["verdict"] == "does_not_fit":
            return (
                f"{required}: enough for these sequences, but the engine does not start, as the "
                "warning says"
            )
        between = f"{level:.0%} between {show_bytes(low)} and {show_bytes(high)}"
        return (
            f"{required}: {balance}; it fills {show_bytes(per_gpu['device_bytes'])} ({between}; "
            f"{answer['basis']})"
        )
    required = f"{show_bytes(per_gpu['device_bytes'])} per GPU at {per_gpu['peak_instant']}"
    required += _describe_stage(per_gpu)
    if remaining_bytes >= 0 and answer["verdict"] == "does_not_fit":
        balance += ", but a node has too little for what is offloaded, as the warning says"
    return (
        f"{required}, of {show_bytes(answer['usable_bytes'])} usable: {balance} ({level:.0%} "
        f"between {show_bytes(low)} and {show_bytes(high)}; {answer['basis']})"
    )


def _describe_stage(per_gpu: Document) -> str:
    """Return which of several pipeline stages decides."""
    stages = len(per_gpu["stages"])
    return f" on stage {per_gpu['worst_rank']['pipeline_stage']} of {stages}" if stages > 1 else ""


def _iter_tables(answer: Document) -> Iterator[RenderableType]:
    per_gpu = answer["per_gpu"]
    yield _build_components(per_gpu)
    rows = [
        (instant["name"], show_bytes(instant["allocated_bytes"])) for instant in per_gpu["instants"]
    ]
    rows.append(("between steps", show_bytes(per_gpu["steady_bytes"])))
    yield make_table(("instant", "allocated"), rows, right=("allocated",))
    if any(stage["layers"] for stage in per_gpu["stages"][1:]):
        yield _build_stages(per_gpu)
    if answer["remedies"]:
        yield _build_remedies(answer)
    if answer["rules_of_thumb"]:
        yield _build_rules(answer)


def _build_components(per_gpu: Document) -> Table:
    total = per_gpu["device_bytes"]
    rows = [
        (
            part["name"],
            show_bytes(part["bytes"]),
            f"{part['bytes'] / total:.1%}",
            part["basis"],
            part["formula"],
        )
        for part in per_gpu["components"]
    ]
    components = make_table(
        ("component", "bytes", "share", "basis", "how"), rows, right=("bytes", "share")
    )
    components.add_section()
    components.add_row("allocated at the peak", show_bytes(per_gpu["allocated_bytes"]))
    components.add_row("reserved", show_bytes(per_gpu["reserved_bytes"]))
    components.add_row("device", show_bytes(total))
    return components


def _build_stages(per_gpu: Document) -> Table:
    """Return every stage of a pipeline."""
    rows: list[tuple[str, ...]] = []
    for stage in per_gpu["stages"]:
        row = (
            " + ".join(str(count) for count in stage["layers"]),
            " + ".join(str(count) for count in stage["micro_batches_in_flight"]),
            show_bytes(stage["allocated_bytes"]),
            show_bytes(stage["steady_bytes"]),
        )
        rows.append((str(stage["pipeline_stage"]), *row))
    columns = ("stage", "layers", "in flight", "allocated", "between steps")
    return make_table(columns, rows, right=("allocated", "between steps"))


def _build_remedies(answer: Document) -> Group:
    rows = [
        (
            _format_remedy(remedy, answer["assumptions"]),
            str(remedy["num_gpus"]),
            show_bytes(remedy["saves_bytes"]),
            VERDICTS[remedy["verdict"]],
            *_format_speed(remedy),
            _format_cost(remedy),
        )
        for remedy in answer["remedies"]
    ]
    if answer["throughput"] is not None:
        rows.insert(
            0,
            (
                "(as asked)",
                str(answer["num_gpus"]),
                "",
                "",
                *_format_speed(answer["throughput"]),
                "x1.00",
            ),
        )
    columns = ("change", "GPUs", "saves", "then it", "step", "tokens/s", "cost a token")
    right = ("GPUs", "saves", "step", "tokens/s", "cost a token")
    return add_title("what would help, the cheapest first", make_table(columns, rows, right=right))


def _format_remedy(remedy: Document, assumptions: Sequence[str]) -> str:
    """Return a change, and below it what it alters in the result."""
    return "\n".join(
        (
            format_change(remedy["change"], assumptions),
            *(f"  ({text})" for text in remedy["effects"]),
        )
    )


def _format_speed(timed: Document) -> tuple[str, str]:
    seconds, rate = timed["step_time_s"], timed["tokens_per_second"]
    return (
        "-" if seconds is None else f"{seconds:.3g} s",
        "-" if rate is None else f"{rate:,.0f}",
    )


def _format_cost(remedy: Document) -> str:
    """Return what a token costs against before, and USD per million tokens."""
    ratio, usd = remedy["cost_ratio"], remedy["usd_per_million_tokens"]
    if ratio is None:
        return "-"
    return f"x{ratio:.2f}" if usd is None else f"x{ratio:.2f} ${usd:,.2f}/M"


def _build_rules(answer: Document) -> Group:
    rows = [
        (
            rule["name"],
            _format_rule(rule["bytes"], rule["seconds"]),
            _format_rule(rule["our_bytes"], rule["our_seconds"]),
            f"{rule['off_by']:+.0%}",
            f"{rule['why']} ({rule['source']})",
        )
        for rule in answer["rules_of_thumb"]
    ]
    columns = ("rule", "says", "ours", "off by", "why")
    return add_title(
        "rules of thumb, and what articles say",
        make_table(columns, rows, right=("says", "ours", "off by")),
    )


def _format_rule(num_bytes: int | None, seconds: float | None) -> str:
    return show_bytes(num_bytes) if num_bytes is not None else f"{seconds:.3g} s"


def _iter_lines(answer: Document) -> Iterator[str]:
    if (search := answer["remedy_search"]) is not None:
        yield f"remedies: {search['conclusion']}"
    if (serving := answer["serving"]) is not None:
        if serving["engine_version"] is not None:
            yield f"engine version: {serving['engine_version']}"
        yield (
            f"cache: {serving['kv_bytes_per_token']:,} bytes per token, "
            f"{show_bytes(serving['kv_cache_bytes'])} in all"
        )
        if serving["kv_pool_bytes"] is not None:
            room = (
                f"{serving['kv_pool_tokens']:,} tokens, {serving['max_num_sequences']:,} sequences "
                "of this length"
            )
            yield f"pool: {show_bytes(serving['kv_pool_bytes'])} for {room}"
    yield from (_describe_input(item) for item in answer["inputs"])
    yield from _iter_run_lines(answer)
    yield from iter_evidence(answer)
    if answer["assumptions"]:
        yield format_assumptions(answer["assumptions"])
    yield from (f"warning: {text}" for text in answer["warnings"])


def _describe_input(item: Document) -> str:
    """Return what one image, video or stretch of audio becomes."""
    pieces, count = item["pieces"], item["count"]
    read = f"{pieces:,} pieces, " if pieces > 1 else ""
    return (
        f"{item['kind']}: {count:,} x {item['tokens']:,} tokens of the sequence, "
        f"{item['features']:,} of them from the encoder ({read}{item['positions']:,} positions)"
    )


def _iter_run_lines(answer: Document) -> Iterator[str]:
    """Yield times of a step and of the run, and disk."""
    if (throughput := answer["throughput"]) is not None:
        speed = (
            f"{throughput['step_time_s']:.3g} s a step, {throughput['tokens_per_second']:,.0f} "
            "tokens/s"
        )
        yield f"speed: {speed}, mfu {throughput['mfu']:.0%} ({throughput['basis']})"
        yield f"time: {throughput['bound_reason']}"
        if throughput["hours_for_tokens"] is not None:
            yield f"the run takes {throughput['hours_for_tokens']:,.2f} hours"
    if (files := answer["checkpoint_bytes"]) is not None:
        yield (
            f"a checkpoint takes {show_bytes(files['total'])}, of which weights "
            f"{show_bytes(files['weights'])}"
        )
        if (limit := files["save_total_limit"]) is not None:
            yield (
                f"save_total_limit {limit} takes {show_bytes(files['disk'])} of disk: one "
                "more is written before the oldest is deleted"
            )
