"""Failures of a submission, which only the command that submits can have."""

from service.base.command_errors import CommandError


class SubmissionError(CommandError):
    """A job was not brought to its scheduler.

    Only its command says so.
    """

    type = "submission-failed"
    title = "The job was not submitted"


class SchedulerError(SubmissionError):
    """A scheduler's client failed, in its own words."""

    type = "scheduler-failed"
    title = "The scheduler's client failed"


class RefusedError(SchedulerError):
    """A scheduler answered that it does not take a job."""

    type = "job-refused"
    title = "The scheduler does not take the job"


class UncertainError(SubmissionError):
    """Nobody can say whether the scheduler took a job."""

    type = "submission-uncertain"
    title = "Nobody can say whether the job was submitted"
