"""The largest value up to which all that are tried fit.

It is proved from both sides: the answer there, and what one more lacks.

What an allocator reserves does not grow evenly: beyond the next value, which does not fit, larger
ones may fit again.
"""

from dataclasses import replace

from service.estimator.values.workload import TrainWorkload
from service.planner.fit.evaluator import Config
from service.planner.plans.ceiling_search import MAX_ANSWERED, Ceiling, CeilingSearch, EvaluatorFor
from service.planner.plans.ceiling_values import Maximized, check_maximized, list_value_notes
from service.planner.search.layout_options import Batch
from service.planner.search.layouts import SearchSpace
from service.planner.search.offer import Offer
from service.planner.search.search_space import Question

SIZES = (10**8, 10**9, 10**10, 10**11)
"""Models whose layouts are tried.

Scaled families divide by other degrees the larger they are.
"""
DIVISIBLE = 2**20
"""Tokens that every degree which is a power of two divides.

Layouts are listed for this length where a length is maximized.
"""


def find_ceiling(question: Question, maximized: Maximized, evaluator_for: EvaluatorFor) -> Ceiling:
    """Find the ceiling over every layout that the request leaves open.

    Equal ceilings go to the faster configuration.

    The GPUs are as many as ``max_gpus``. ``evaluator_for`` returns the evaluator at a value: the
    same for all, but for the number of parameters. Numbers alone rank the layouts, and the best few
    are answered in full. Raises EstimatorError when no configuration can run at the least value.
    """
    check_maximized(question.workload, maximized)
    search = CeilingSearch(question, maximized, evaluator_for)
    candidates = _list_configs(question, maximized, evaluator_for)
    ranked = search.rank_configs(candidates)
    trials = [
        (config, reached)
        for config, start in ranked[:MAX_ANSWERED]
        if (reached := search.find_near(config, start)) is not None
    ]
    if not trials:
        return search.make_empty_ceiling([config for config, _ in ranked[:MAX_ANSWERED]])
    best_config, best = max(trials, key=lambda pair: (pair[1].value, -search.get_cost(pair[1])))
    following, refusal = search.try_next(best_config, best)
    return Ceiling(
        value=best.value,
        best=best,
        next=following,
        refusal=refusal,
        num_evaluated=search.num_evaluated,
        notes=list_value_notes(best_config[0], maximized, best.value),
    )


def _list_configs(
    question: Question, maximized: Maximized, evaluator_for: EvaluatorFor
) -> list[Config]:
    """Return every configuration to try on so many GPUs.

    Each is at its smallest micro batch and with its pipeline kept busy.
    """
    configs: dict[Config, None] = {}
    refused: Config | None = None
    workload = question.workload
    if maximized is Maximized.SEQUENCE_LENGTH and isinstance(workload, TrainWorkload):
        question = replace(question, workload=replace(workload, sequence_length=DIVISIBLE))
    for size in SIZES if maximized is Maximized.NUM_PARAMETERS else (1,):
        evaluator = evaluator_for(size)
        space = SearchSpace(evaluator.architecture, question, Offer(device=evaluator.device))
        for option in space.list_options(question.limits.max_gpus):
            best_batches = {
                batch.checkpointing_index: batch
                for batch in sorted(space.list_batches(option), key=_rank_batch, reverse=True)
            }
            configs.update(
                dict.fromkeys(space.build_config(option, batch) for batch in best_batches.values())
            )
        refused = refused or space.first_refused
    if not configs and refused is not None:
        configs[refused] = None
    return list(configs)


def _rank_batch(batch: Batch) -> tuple[int, int]:
    return batch.micro_batch_size, -batch.gradient_accumulation_steps
