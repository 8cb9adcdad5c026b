"""Benchmarks with a known answer, for methods from outside.

    from triptych import benchmarks

    for task in benchmarks.located():
        print(task.name, task.score(my_method(task.pipe, task.prompts, task.sites)))

    task = benchmarks.features()
    texts, there = task.labelled(240)
    print(task.score(my_directions(task.activations(texts))))

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
from analysis.methods.tracing.feature_benchmark import FeatureRecovery, FeatureTask, features

__all__ = [
    "BenchmarkPrompt",
    "ChoiceTask",
    "FeatureRecovery",
    "FeatureTask",
    "Localisation",
    "LocatedTask",
    "SetScore",
    "features",
    "located",
]
