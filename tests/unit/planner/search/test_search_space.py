"""What a question may bound and allow."""

import pytest

from service.estimator.values.errors import InvalidInputError
from service.planner.search.search_space import Limits, Question
from tests.unit.planner.builders import CHAT, ONE_GPU, SHORT


def test_limits_that_make_no_sense_are_refused() -> None:
    """Each names its field."""
    with pytest.raises(InvalidInputError, match="max_gpus is 0"):
        Limits(max_gpus=0)
    with pytest.raises(InvalidInputError, match="global_batch_size is 0"):
        Limits(global_batch_size=0)
    with pytest.raises(InvalidInputError, match="min_tokens_per_second is -1"):
        Limits(min_tokens_per_second=-1.0)


def test_replicas_are_counted_where_more_of_them_are_what_is_asked() -> None:
    """A load or a throughput asks for replicas, unless the request says how many; training has
    none.
    """
    load = Limits(min_num_sequences=64)

    assert Question(workload=CHAT, layout=ONE_GPU, limits=load).counts_replicas
    assert not Question(workload=CHAT, layout=ONE_GPU).counts_replicas
    assert not Question(
        workload=CHAT, layout=ONE_GPU, limits=load, fixed=frozenset({"data_parallel"})
    ).counts_replicas
    with pytest.raises(InvalidInputError, match="min_num_sequences means nothing for task 'train'"):
        Question(workload=SHORT, layout=ONE_GPU, limits=load)
