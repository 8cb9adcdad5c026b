"""The error for what the caller of a hook can mend; `hooks.architectures.layout.MisfitError` is one."""


class HookError(ValueError):
    """A pipeline, site, pair or moment that a probe cannot read.

    The message is one line: place, rule, what was found, remedy.
    """
