"""Estimates of serving on the transformers library.

A question is checked, sharded over ranks and walked.
"""

from dataclasses import replace

from service.estimator.backends.pass_cache import PassCache
from service.estimator.backends.transformers.encoder_serving import explain_encoding
from service.estimator.backends.transformers.serving import explain
from service.estimator.memory.answer.assemble import assemble
from service.estimator.memory.question import ServeQuestion
from service.estimator.model.tensor_parallel.split_plan import TRANSFORMERS
from service.estimator.rules.transformers import select_serving_table
from service.estimator.values.result import Estimate


def answer(question: ServeQuestion, cache: PassCache) -> Estimate:
    """Return the estimate of one rank's replica."""
    table = select_serving_table(question.model)
    cache.get_checks(table, question.model).check(question.workload, question.layout)
    ranks = question.layout.tensor_parallel
    if ranks > 1:
        shard = cache.get_shard(question.model, ranks, TRANSFORMERS)
        question = replace(question, model=shard)
    generates = question.model.generates
    partial_estimate = (explain if generates else explain_encoding)(question, cache)
    return assemble(
        partial_estimate,
        corrections=question.corrections,
        device=question.device,
        warnings=question.device.list_warnings(question.workload.weight_dtype),
        detail=question.detail,
        level=question.level,
    )
