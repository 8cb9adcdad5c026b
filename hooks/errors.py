"""The one error this room raises for what its caller can mend."""


class HookError(ValueError):
    """A pipeline, site, pair or moment that a probe cannot read.

    The message is one line: place, rule, what was found, remedy.
    """
