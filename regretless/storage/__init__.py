"""Runs that live in an Optuna storage, with any number of workers on any number of machines.

The modules here drive `doors.optuna.Sampler`: one works on a study, one opens storages, one writes studies to files.
They are runners, not doors, so they stand above the doors.
"""
