"""JSON that others wrote: whatever is wrong with it is one kind of error, endless nesting and endless numbers too."""

from __future__ import annotations

import json
from typing import Any

DEPTH = 100  # lists and objects within each other


def parse_json(text: str | bytes) -> Any:
    """Return what a JSON text says.

    Else a `json.JSONDecodeError`, also for what Python's own reader ends with another error at: more than `DEPTH`
    levels, a number of thousands of digits, bytes that are no text.
    """
    try:
        data = json.loads(text)
    except json.JSONDecodeError:
        raise
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise json.JSONDecodeError(str(error).partition(";")[0], "", 0) from None
    level = [data]
    for _ in range(DEPTH):
        level = [inner for one in level for inner in _inside(one) if isinstance(inner, (dict, list))]
        if not level:
            return data
    raise _too_deep()


def _inside(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _too_deep() -> json.JSONDecodeError:
    return json.JSONDecodeError(f"lists or objects within each other beyond {DEPTH} levels", "", 0)
