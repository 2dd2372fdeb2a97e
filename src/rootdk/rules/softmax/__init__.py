"""RDK3xx: how scores become weights."""
