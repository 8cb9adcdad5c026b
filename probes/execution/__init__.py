"""How the parts of a stage are computed: here, in several processes, in shards, on a cluster."""
