"""The sufficient statistics, one file each. The folder is the registry."""
