"""Text Generation Inference: the pool takes a share of the GPU.

3.3.5, ``server/text_generation_server/models/flash_causal_lm.py`` (``warmup``), ``globals.py``
(``TGI_WIGGLE_ROOM`` 0.9, a token a block with flashinfer), ``launcher/src/main.rs``: 4,096 tokens
of ``max_batch_prefill_tokens`` where the GPU's rates are unknown. ``max_total_tokens`` that is said
and has no room is an error (``backends/v3/src/lib.rs``), one that is not is what has room, from 3.0
on. It is in maintenance.
"""

from service.estimator.backends.paged_pool.share_engine import ShareEngine, answer_share
from service.estimator.backends.pass_cache import PassCache
from service.estimator.backends.tgi.backend import NEWEST, OLDEST
from service.estimator.memory.question import ServeQuestion
from service.estimator.rules.tables.serving.share_engines import SERVE_TGI
from service.estimator.values.engine_versions import Version
from service.estimator.values.result import Estimate

ENGINE = ShareEngine(
    name="tgi",
    releases=(OLDEST, NEWEST),
    rules=SERVE_TGI,
    share=0.9,
    of_free=False,
    block_tokens=1,
    step_tokens=4096,
    source="TGI 3.3.5, models/flash_causal_lm.py, warmup",
    adapts_from=Version(3, 0),
)


def answer(question: ServeQuestion, cache: PassCache) -> Estimate:
    """Return the estimate of one replica of TGI."""
    return answer_share(ENGINE, question, cache)
