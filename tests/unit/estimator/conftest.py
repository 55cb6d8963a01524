"""Properties are searched without a clock and from the same seed, so that a run says the same on
every machine.
"""

from hypothesis import settings

settings.register_profile("estimator", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("estimator")
