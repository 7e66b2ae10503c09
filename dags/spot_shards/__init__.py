"""The parts of the pipeline in shards_on_spot.py: what a shard does, and its inputs."""
