"""Estimates of serving on the transformers library.

A question is checked, sharded over ranks and walked.
"""

from collections.abc import Callable

from service.estimator.backends.transformers.serving import Recorder, ReplicaSetup, explain
from service.estimator.memory.answer.assemble import PartialEstimate
from service.estimator.model.architecture import Architecture
from service.estimator.model.tensor_parallel.split_plan import TRANSFORMERS, SplitPlan
from service.estimator.rules.transformers import check_in_transformers
from service.estimator.values.corrections import Corrections
from service.estimator.values.device import Device
from service.estimator.values.layout import Layout
from service.estimator.values.workload import ServeWorkload

ShardModel = Callable[[Architecture, int, SplitPlan], Architecture]


def answer_serving(  # noqa: PLR0913 - what is asked, where, with what is known, and who keeps what is made for it
    model: Architecture,
    workload: ServeWorkload,
    layout: Layout,
    device: Device,
    *,
    corrections: Corrections | None,
    record: Recorder,
    share: ShardModel,
) -> PartialEstimate:
    """Return the partial estimate of one rank's replica."""
    check_in_transformers(model, workload, layout)
    rank = share(model, layout.tensor_parallel, TRANSFORMERS)
    return explain(
        rank, workload, ReplicaSetup(layout=layout, device=device, corrections=corrections), record
    )
