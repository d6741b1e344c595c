"""Nodes that move continuously: an Ornstein–Uhlenbeck process whose resting level follows parents.

    dx = [c − λ x + Σ w φ(x_parent) + Σ u 1(stimulus is on)] dt + σ dW,    y = x + noise

``family_score.py`` gives the evidence of a set of parents in closed form, ``learn.py`` turns the
evidence of all sets into edge probabilities, ``effects.py`` says how strong an edge is and
``switching.py`` finds when an unknown stimulus ended. ``network.py``, ``simulate.py`` and
``kalman.py`` hold networks whose numbers are known.
"""
