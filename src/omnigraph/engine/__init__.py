"""Runs plans over tables: joins meaning and matter."""
