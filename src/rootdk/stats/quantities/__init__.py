"""The quantities, one file each. The folder is the registry."""
