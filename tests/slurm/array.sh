#!/bin/sh
#SBATCH --job-name=triptych
#SBATCH --ntasks=1
#SBATCH --requeue
# An array of shards of one run: sbatch --array=0-15 array.sh triplets.yaml --out /shared/runs/study
# SHARDS is fixed when only some of the jobs are submitted again; PYTHON is that of the environment.
exec "${PYTHON:-python}" -m probes.run "$@" --quiet \
    --shard "$SLURM_ARRAY_TASK_ID/${SHARDS:-$SLURM_ARRAY_TASK_COUNT}"
