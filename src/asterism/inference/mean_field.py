"""Naive mean field (Cohn, El-Hay, Friedman and Kupferman 2010): nodes independent, a true bound.

The update of a node is the one in ``star.py`` with two changes. Off the diagonal the rates are
averaged geometrically, A(x,y) = exp E_n[ln R(x,y)], because with independent nodes the energy
holds expectations of ln R. And a child's pull uses its expected transitions τ_j = w_j A_j with
logarithms, ψ(x') = Σ_j { Σ_x m_j(x) E_j[R_j(x,x) | x'] + Σ_{x≠y} τ_j(x,y) E_j[ln R_j(x,y) | x'] }.

The neighbours' τ is stored, not w, and held fixed while a node is updated: each update is then an
exact maximisation of F over that node, F rises from sweep to sweep and never exceeds ln P(Y).
A transition that is impossible under a parent configuration of positive probability has
geometric average zero: mean field cannot use it.
"""

from __future__ import annotations

from asterism.inference.evidence import FloatArray
from asterism.inference.layout import geometric_table
from asterism.model.compiled import CompiledNetwork


def mean_field_table(network: CompiledNetwork) -> FloatArray:
    """What mean field averages over parents: exit rates, and logarithms off the diagonal."""
    return geometric_table(network.rates, network.graph)
