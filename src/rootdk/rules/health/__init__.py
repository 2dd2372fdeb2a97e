"""RDK6xx: what the numbers of a run look like."""
