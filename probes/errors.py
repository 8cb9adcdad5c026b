"""The one error that a user can mend."""


class UserError(Exception):
    """Something the user can mend: one line that names the place, the rule, what was found and the remedy.

    Command lines print the message to stderr without a traceback and end with exit status 2. Everything else
    is a bug and keeps its traceback.

    Examples
    --------
    >>> str(UserError("triplets.yaml: seeds[0]: expected an integer, got 'one': write a whole number"))
    "triplets.yaml: seeds[0]: expected an integer, got 'one': write a whole number"
    """

    def __init__(self, message: str):
        super().__init__(" ".join(str(message).split()))
