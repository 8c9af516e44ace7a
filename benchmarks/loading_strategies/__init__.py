"""Ways of loading images, which benchmarks/loading.py compares."""
