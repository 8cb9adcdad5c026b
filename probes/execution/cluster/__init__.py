"""Runs on a cluster: a driver holds the queue of parts, workers elsewhere make each part whole and write it.

- `driver`: a stage's calls to the cluster, with progress and what ``run.json`` keeps of it.
- `pool`: the workers as actors of Ray: who is given which part, and what becomes of those whose worker is lost.
- `starts`: workers that are lost before they are ready.
- `worker`: what a worker does; knows no Ray.
- `job`: the description of a stage for a worker.
- `on_ray`: the connection to Ray; the one module that imports it.
- `garbage`: short garbage collections in a worker.

What a worker does for a stage stands beside the stage: `probes.stages.remote`, `probes.stages.trace.remote` and
`analysis.observe.remote`.
"""
