"""An alarm for what may hang."""

import contextlib
import signal

SECONDS = 60  # until something counts as hanging, also on a machine that is busy otherwise


class Hang(BaseException):
    """Raised by the alarm; no `except Exception` takes it."""


@contextlib.contextmanager
def soon():
    """Raise `Hang` where the body takes long."""

    def ring(*_):
        raise Hang

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
