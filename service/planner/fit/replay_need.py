"""Whether a replay of the allocator could turn a verdict.

Numbers alone take reserved bytes for a ratio of the allocated ones. A replay tells them for one
order of calls: never fewer than are allocated, and more than the ratio where it leaves holes.
"""

from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.workload import Engine, Framework, ServeWorkload, Workload
from service.planner.fit.evaluator import Evaluator
from service.planner.fit.verdict import Verdict, judge, shared_host_bytes

MOST_TIMES = 2
"""The upper end of a replayed answer is less than so many times that of its numbers: 1.46 times at
most in 2,900 questions, of which 1,081 are a grid (``python -m tests.bench.verdicts``).
"""


def may_turn(evaluator: Evaluator, workload: Workload, layout: Layout, estimate: Estimate) -> bool:
    """Return whether a replay could turn the verdict of an estimate.

    What does not fit without any hole does not fit; what fits twice does.
    """
    if not is_replayable(workload):
        return False
    device = evaluator.device
    if judge(estimate, device).verdict is Verdict.FITS:
        room = device.usable_bytes - shared_host_bytes(estimate, device)
        return estimate.device_interval.high * MOST_TIMES > room
    bound = evaluator.lower_bound(workload, layout)
    return bound is None or judge(bound, device).verdict is not Verdict.DOES_NOT_FIT


def is_replayable(workload: Workload) -> bool:
    """Return whether a workload is replayed where its order is known."""
    if isinstance(workload, ServeWorkload):
        return workload.engine is Engine.TRANSFORMERS
    return workload.framework is Framework.TRANSFORMERS
