"""Failures of a submission, which only the command that submits can have."""

from service.base.errors import ServiceError


class SubmissionError(ServiceError):
    """A job was not brought to its scheduler; never sent over HTTP."""

    type = "submission-failed"
    title = "The job was not submitted"


class SchedulerError(SubmissionError):
    """A scheduler's client failed, in its own words."""

    type = "scheduler-failed"
    title = "The scheduler's client failed"


class UncertainError(SubmissionError):
    """Nobody can say whether the scheduler took a job."""

    type = "submission-uncertain"
    title = "Nobody can say whether the job was submitted"
