"""Estimates of serving on the transformers library.

A question is checked, sharded over ranks and walked.
"""

from dataclasses import replace

from service.estimator.backends.pass_cache import PassCache
from service.estimator.backends.transformers.encoder_serving import explain_encoding
from service.estimator.backends.transformers.serving import explain
from service.estimator.memory.allocator.kernel_buffers import find_kernel_buffers
from service.estimator.memory.answer.assemble import assemble
from service.estimator.memory.answer.partial_estimate import PartialEstimate
from service.estimator.memory.question import ServeQuestion
from service.estimator.model.tensor_parallel.split_plan import TRANSFORMERS
from service.estimator.rules.transformers import select_serving_table
from service.estimator.values.memo import Memo
from service.estimator.values.result import Estimate


def answer(question: ServeQuestion, cache: PassCache) -> Estimate:
    """Return the estimate of one rank's replica."""
    table = select_serving_table(question.model)
    cache.get_checks(table, question.model).check(question.workload, question.layout)
    ranks = question.layout.tensor_parallel
    if ranks > 1:
        shard = cache.get_shard(question.model, ranks, TRANSFORMERS)
        question = replace(question, model=shard)
    return assemble(_explain_once(question, cache), question, question.workload.weight_dtype)


def _explain_once(question: ServeQuestion, cache: PassCache) -> PartialEstimate:
    """Return the partial estimate of a replica.

    It is made once where nothing measured corrects it: of a GPU its kernels alone change a replica,
    of the intervals' level nothing does. What it has beside them is told at last.
    """
    make = explain if question.model.generates else explain_encoding
    if question.corrections is not None:
        return make(question, cache)
    memo: Memo[PartialEstimate] = cache.get_memo("explained replicas")
    key = (
        cache.get_model_key(question.model),
        question.workload,
        question.layout,
        question.detail,
        find_kernel_buffers(question.device),
    )
    return memo.get_or_make(key, lambda: make(question, cache))
