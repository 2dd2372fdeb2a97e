"""Every architecture of the installed transformers, built small and fed synthetic input."""
