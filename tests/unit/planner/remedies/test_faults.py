"""Questions to which no remedy list had an answer, and what they are told now."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, resolve_model
from service.estimator.cache import PlanCache
from service.estimator.values.device import Device
from service.estimator.values.layout import Layout
from service.estimator.values.units import GIB
from service.estimator.values.workload import (
    Checkpointing,
    Engine,
    Lora,
    Method,
    ServeWorkload,
    TrainWorkload,
    Workload,
)
from service.planner.fit.evaluator import Evaluator, make_evaluator
from service.planner.fit.remedy import Remedy
from service.planner.fit.verdict import Verdict
from service.planner.remedies.combinations import CombinationSearch
from service.planner.remedies.find import Market, Remedies, find_remedies
from service.planner.remedies.selection import summarize_search
from service.planner.remedies.steps import list_steps
from service.planner.remedies.trials import Trials
from tests.unit.planner.builders import ONE_GPU, a_device, shallow

H200, PRICES = "H200-SXM5-141GB", {"H100-SXM5-80GB": 4.0, "H200-SXM5-141GB": 5.0}
SERVED = ServeWorkload(engine=Engine.VLLM, num_sequences=8, prompt_tokens=4096, output_tokens=512)
PLANS = PlanCache()
LENGTH = "max_model_len"


def _help(
    model: str, gpu: str, workload: Workload, layout: Layout = ONE_GPU, others: Sequence[str] = ()
) -> Remedies:
    architecture = load_architecture(resolve_model(model))

    def get_evaluator(name: str) -> Evaluator:
        return make_evaluator(architecture, resolve_gpu(name).to_device(), plans=PLANS)

    def list_others(_device: Device) -> list[Evaluator]:
        return [get_evaluator(name) for name in others]

    market = Market(other_gpus=list_others, prices=PRICES)
    return find_remedies(get_evaluator(gpu), workload, layout, market)


def _list_fitting(remedies: Remedies) -> list[Remedy]:
    return [remedy for remedy in remedies.remedies if remedy.verdict is Verdict.FITS]


@cache
def _help_fine_tuning() -> Remedies:
    return _help("llama-3.1-8b", "RTX-4090", TrainWorkload(sequence_length=4096))


def test_fine_tuning_8b_on_a_4090_ends_in_something_that_fits() -> None:
    """QLoRA with checkpointing is a pair of which one half alone saves nothing at the peak."""
    fitting = _list_fitting(_help_fine_tuning())

    qlora = [
        remedy.workload
        for remedy in fitting
        if isinstance(remedy.workload, TrainWorkload) and remedy.workload.method is Method.QLORA
    ]
    assert any(each.activation_checkpointing is Checkpointing.FULL for each in qlora)


def test_rounding_is_named_and_costs_are_ascending() -> None:
    """Of each remedy it is said what it alters, and the cheapest per token comes first."""
    fitting = _list_fitting(_help_fine_tuning())

    costs = [remedy.cost.cost_ratio or float("inf") for remedy in fitting]
    assert costs == sorted(costs)
    for remedy in fitting:
        is_qlora = "qlora" in remedy.change.values()
        assert is_qlora == ("the frozen weights are rounded to 4 bits" in remedy.effects)


def _measure_passes() -> float:
    """Return the share of a fine-tuning step's time that is not its update."""
    evaluator = make_evaluator(
        load_architecture(resolve_model("llama-3.1-8b")),
        resolve_gpu("RTX-4090").to_device(),
        plans=PLANS,
    )

    def measure(micro_batches: int) -> float:
        workload = TrainWorkload(sequence_length=4096, gradient_accumulation_steps=micro_batches)
        estimate = evaluator.estimate_numbers(workload, ONE_GPU)
        throughput = evaluator.get_throughput(workload, ONE_GPU, estimate)
        assert throughput is not None
        return 4096 / throughput.tokens_per_second

    return measure(4096) / measure(1)


def test_more_gpus_are_sooner_done_and_cost_their_time() -> None:
    """Time is that of the whole job; GPU time per token is its cost, of which a sharded update can
    save its own time and no more: the passes are as long on many.
    """
    fitting = _list_fitting(_help_fine_tuning())
    passes = _measure_passes()
    assert passes < 1

    spread = [remedy for remedy in fitting if remedy.num_gpus > 1]
    assert spread
    for remedy in spread:
        time, cost = remedy.cost.time_ratio, remedy.cost.gpu_time_ratio
        assert time is not None
        assert cost is not None
        assert time < 1
        assert cost > (1 if "method" in remedy.change else passes)
        assert abs(time * remedy.num_gpus - cost) < 0.01 * remedy.num_gpus


def test_an_engine_is_told_of_its_own_words() -> None:
    """gpt-oss-120b fits one H100 when vLLM may fill 95 % of it."""
    served = replace(SERVED, engine_version="0.19.0")
    fitting = _list_fitting(_help("gpt-oss-120b", "H100-SXM5-80GB", served))

    words = next(remedy for remedy in fitting if remedy.change == {"gpu_memory_fraction": 0.95})
    assert words.num_gpus == 1
    assert words.effects == ()


def test_a_replica_that_is_too_large_hears_of_more_and_of_larger_gpus() -> None:
    """DeepSeek-V3 on 8 H100 takes 16, or 8 H200 at the price of those."""
    layout = Layout(tensor_parallel=8)
    fitting = _list_fitting(_help("deepseek-v3", "H100-SXM5-80GB", SERVED, layout, [H200]))

    more = next(remedy for remedy in fitting if remedy.num_gpus == 16)
    larger = next(remedy for remedy in fitting if remedy.change == {"gpu": H200})
    assert more.gpu == "H100-SXM5-80GB"
    assert larger.num_gpus == 8
    assert larger.cost.gpu_time_ratio is not None
    assert larger.cost.cost_ratio is not None
    assert abs(larger.cost.cost_ratio - larger.cost.gpu_time_ratio * 5 / 4) < 0.002


def test_adapters_of_experts_are_named_and_attention_is_offered() -> None:
    """Where all-linear adapts every expert, adapters on attention alone are a remedy."""
    architecture = shallow("qwen3-30b-a3b", 2)
    device = resolve_gpu("T4").to_device()
    workload = TrainWorkload(
        sequence_length=512,
        micro_batch_size=1,
        method=Method.LORA,
        lora=Lora(rank=128),
    )
    evaluator = make_evaluator(architecture, device, plans=PLANS)

    remedies = find_remedies(evaluator, workload, ONE_GPU)

    assert any(
        "128 experts of each layer" in text for text in evaluator.answer(workload, ONE_GPU).warnings
    )
    attention = [
        effect
        for remedy in remedies.remedies
        for effect in remedy.effects
        if effect.startswith("adapters on attention alone")
    ]
    assert any("not on the 128 experts" in effect for effect in attention)


def test_where_nothing_helps_the_search_says_so() -> None:
    """405B on a T4 of no other kinds fits in no way, and what lacks least is named."""
    remedies = _help("llama-3.1-405b", "T4", TrainWorkload(sequence_length=4096))

    assert _list_fitting(remedies) == []
    assert remedies.search.conclusion.startswith("nothing known makes it fit")
    assert "lacks" in remedies.search.conclusion


def test_a_spent_limit_is_said() -> None:
    """A search that its limit ended does not pass for a complete one."""
    architecture = load_architecture(resolve_model("gpt2"))
    evaluator = make_evaluator(architecture, a_device(GIB), plans=PLANS)
    workload = TrainWorkload(sequence_length=256, micro_batch_size=16)
    trials = Trials(evaluator, (workload, ONE_GPU), max_estimates=5)
    search = CombinationSearch(trials=trials, steps=list_steps(architecture))

    search.run()

    summary = summarize_search(trials, search, [], "")
    assert not summary.is_complete
    assert summary.num_estimates == summary.max_estimates == 5
    assert "the limit of 5 estimates ended the search" in summary.conclusion


def test_a_table_of_long_rows_is_cut() -> None:
    """SGLang's table of requests has a row of the whole context for each, beside its fraction."""
    asked = replace(
        SERVED,
        engine=Engine.SGLANG,
        prompt_tokens=100,
        output_tokens=20,
        max_model_len=1_000_000,
        gpu_memory_fraction=0.9,
    )

    found = _help("llama-3.1-8b", "H100-SXM5-80GB", asked)

    (shorter,) = (remedy for remedy in _list_fitting(found) if set(remedy.change) == {LENGTH})
    assert 120 <= shorter.change[LENGTH] < 1_000_000  # type: ignore[operator]  # a number
