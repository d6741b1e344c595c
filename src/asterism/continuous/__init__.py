"""Nodes that move continuously: an Ornstein–Uhlenbeck process whose resting level follows parents.

    dx = [c − λ x + Σ w φ(x_parent) + Σ u 1(stimulus is on)] dt + σ dW,    y = x + noise

``family_score.py`` gives the evidence of a set of parents in closed form, ``learn.py`` says whom
stimuli act on, ``effects.py`` how strong an edge is and ``switching.py`` when an unknown stimulus
ended. The search over sets of parents is ``learning/search/continuous_search.py``. ``network.py``,
``simulate.py`` and ``kalman.py`` hold networks whose numbers are known.
"""
