"""Doors: one thin adapter per library of the users' world (Optuna, Ray, scikit-learn, BoTorch, torch).

A door translates names and units and holds an `Optimizer`; it decides nothing itself. Only doors import these
libraries, and only the command and the storage runners import doors.
"""
