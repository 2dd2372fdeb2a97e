"""Attention as other packages write it, for ``bench/wild.py``."""
