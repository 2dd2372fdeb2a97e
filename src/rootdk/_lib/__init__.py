"""Foundations that know nothing of attention: errors, arrays, dimensions, discovery."""
