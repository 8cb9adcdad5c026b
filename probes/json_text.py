"""JSON that others wrote: whatever is wrong with it is one kind of error, endless nesting and endless numbers too."""

from __future__ import annotations

import json
from typing import Any


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text; any failure is a `json.JSONDecodeError`, endless nesting or numbers, too."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except (RecursionError, ValueError) as error:  # a number of thousands of digits, bytes that are no text
        raise json.JSONDecodeError(str(error).partition(";")[0], "", 0) from None
