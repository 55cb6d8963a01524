"""Module that is never loaded to its end."""

import threading

threading.Event().wait()
