"""Launches and submitted jobs, read with models that are given.

They run in processes with limits, as what is read of ``bodies`` does.
"""

from service.api.http.decoding import read_json
from service.api.resources.handed_in.checkpoints import Checkpoints
from service.contract.schemas.imports.launches import LaunchImportRequest
from service.contract.to_question.launches import LaunchQuestion, read_launch_by
from service.contract.to_question.submissions.questions import SubmissionQuestion, read_submission
from service.formats.submissions.submission import Submission


def read_launch_body(body: bytes, checkpoints: Checkpoints) -> LaunchQuestion:
    """Return the question of a launch."""
    return read_launch_by(read_json(body, LaunchImportRequest), checkpoints.find)


def read_job(
    submission: Submission,
    default_gpu: str | None,
    cluster: str | None,
    checkpoints: Checkpoints,
) -> SubmissionQuestion:
    """Return the question of a job."""
    return read_submission(submission, checkpoints.find, default_gpu=default_gpu, cluster=cluster)
