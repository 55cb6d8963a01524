"""Types of questions and answers."""

from service.client.generated.models import *  # noqa: F403 - what the generator lists
