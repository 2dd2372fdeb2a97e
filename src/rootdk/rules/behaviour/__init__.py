"""RDK7xx: what must not move an output, and what must."""
