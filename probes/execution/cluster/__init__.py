"""Runs on a cluster: a driver holds the queue of parts, workers elsewhere make each part whole and write it.

- `job`: what a worker is told of a stage, in plain text.
- `worker`: what a worker does; knows no engine.
- `engine`, `queue`: who is given what, and what becomes of parts whose worker is lost; know no engine by name.
- `on_ray`: the engine that places workers, Ray; the one module that imports it.
- `driver`: a stage's calls, with progress and what the record keeps.
- `drawing`: the parts of the generate stage as a worker finds them again; of the others `probes.stages.trace.elsewhere` and
  `analysis.observe.remote`.
"""
