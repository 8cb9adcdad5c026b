"""The error for what the caller of a hook can mend; `hooks.architectures.layout.MisfitError` is one."""


class HookError(ValueError):
    """Error that the caller of `hooks` can correct: a pipeline, site, pair or moment that cannot be read.

    The message is one line: place, rule, what was found, remedy.
    """
