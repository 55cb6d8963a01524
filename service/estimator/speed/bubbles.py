"""Time that a pipeline's stages wait, by schedule."""

from fractions import Fraction

from service.estimator.values.layout import Layout
from service.estimator.values.pipeline import PipelineSchedule

_WEIGHTS = Fraction(1, 3)
"""Part of a micro-batch's passes that is the gradients of weights (arXiv:2401.10241, section 2)."""
_BUBBLES = {
    PipelineSchedule.GPIPE: Fraction(1),
    PipelineSchedule.ONE_F_ONE_B: Fraction(1),
    PipelineSchedule.INTERLEAVED: Fraction(1),
    PipelineSchedule.LOOPED_BFS: Fraction(1),
    PipelineSchedule.INTERLEAVED_ZERO_BUBBLE: _WEIGHTS,
    PipelineSchedule.ZBV: Fraction(0),
    PipelineSchedule.DUAL_PIPE_V: 2 * _WEIGHTS,
}
"""Micro-batches of waiting for each further stage and chunk.

1F1B and GPipe wait for a whole micro-batch, interleaved ones for a chunk of it (arXiv:2104.04473,
section 2.2); ZB-H1 fills all but ``F + B - 2 W``, ZBV all of it where forward, inputs and weights
take as long (arXiv:2401.10241, section 2.3 and 6); DualPipe leaves ``F&B + B - 3 W``
(arXiv:2412.19437, table 2).
"""


def get_bubble_share(layout: Layout) -> float:
    """Return the micro-batches' time that a stage waits in one step."""
    stages, virtual = layout.pipeline_parallel, layout.virtual_pipeline_stages
    bubble = (stages - 1) / virtual
    share = _BUBBLES[layout.schedule]
    return bubble if share == 1 else bubble * float(share)
