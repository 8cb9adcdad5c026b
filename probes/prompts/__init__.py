"""From `triplets.yaml` to captions: which are drawn, in which order, from which noise."""
