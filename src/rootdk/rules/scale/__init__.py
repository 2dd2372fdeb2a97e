"""RDK1xx: the number that the scores are multiplied by."""
