"""From ``triplets.yaml`` to stored generations: configuration, prompts, models, generation, run directory."""
