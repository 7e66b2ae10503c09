"""The parts of the pipeline in parse_python_sources.py: what is listed, run and reported."""
