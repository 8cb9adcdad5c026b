"""Benchmarks with a known answer, for methods from outside.

    from triptych import benchmarks

    for task in benchmarks.located():
        print(task.name, task.score(my_method(task.pipe, task.prompts, task.sites)))

`docs/how_to/benchmark.md` has whole examples.
"""

from analysis.methods.tracing.benchmark import (
    BenchmarkPrompt,
    ChoiceTask,
    Localisation,
    LocatedTask,
    SetScore,
    located,
)

__all__ = [
    "BenchmarkPrompt",
    "ChoiceTask",
    "Localisation",
    "LocatedTask",
    "SetScore",
    "located",
]
