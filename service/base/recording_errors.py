"""Refusals of questions about models that have no recording yet."""

from service.base.errors import ConflictError, InvalidRequestError


class ModelRecordingError(ConflictError):
    """A model whose recording is under way.

    ``retry_after_s`` says when to ask again, ``static`` what is known of it by now.
    """

    type = "model-recording"
    title = "This model is being recorded"


class ModelNotRecordedError(InvalidRequestError):
    """A stored model whose config cannot be recorded."""

    type = "model-not-recorded"
    title = "This model could not be recorded"
