"""Refusals of a process that cannot start."""

from service.base.errors import ServiceError


class StartupError(ServiceError):
    """This process cannot start; the detail says what would be right."""

    type = "startup"
    title = "Headroom cannot start"


class InvalidSettingError(StartupError):
    """An environment variable holds what it cannot hold."""

    type = "invalid-setting"
    title = "A setting is invalid"


class EmbeddedServerError(StartupError):
    """The embedded Postgres or Redis cannot be started or stopped."""

    type = "embedded-server"
    title = "An embedded server failed"
