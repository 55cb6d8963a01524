"""LMDeploy: the pool takes a share of free memory.

0.16.0, ``lmdeploy/messages.py`` (``TurbomindEngineConfig``: ``cache_max_entry_count`` 0.8,
``cache_block_seq_len`` 64, ``max_prefill_token_num`` 8192), ``src/turbomind/turbomind.cc``: the
free bytes after loading times the ratio; what a step needs lives in the remainder.
"""

from service.estimator.backends.lmdeploy.backend import NEWEST, OLDEST
from service.estimator.backends.paged_pool.share_engine import ShareEngine, answer_share
from service.estimator.backends.pass_cache import PassCache
from service.estimator.memory.question import ServeQuestion
from service.estimator.rules.tables.serving.share_engines import SERVE_LMDEPLOY
from service.estimator.values.result import Estimate

ENGINE = ShareEngine(
    name="lmdeploy",
    releases=(OLDEST, NEWEST),
    rules=SERVE_LMDEPLOY,
    share=0.8,
    of_free=True,
    block_tokens=64,
    step_tokens=8192,
    source="LMDeploy 0.16.0, src/turbomind/turbomind.cc, cache_max_block_count of free bytes",
)


def answer(question: ServeQuestion, cache: PassCache) -> Estimate:
    """Return the estimate of one replica of LMDeploy."""
    return answer_share(ENGINE, question, cache)
