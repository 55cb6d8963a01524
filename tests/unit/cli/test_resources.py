"""Stored resources: what a server says about its methods is told as commands."""

from service.cli.resources import in_commands


def test_a_name_that_is_taken_is_told_with_the_command_that_replaces() -> None:
    """Where the server names PUT, the command line names its own word for it."""
    told = in_commands("there is a model 'a'; store a new revision of it with PUT, or choose another name", "models replace a")

    assert told == ("there is a model 'a'; store a new revision of it with `headroom models replace a`, or choose another name")
