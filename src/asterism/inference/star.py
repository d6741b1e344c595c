"""The star approximation: what each node feels, and how an update uses it.

Every node n keeps a forward message f_n and a backward message ρ_n; its marginal is m_n = f_n ρ_n.
Around it stand its parents, seen through their marginals. One update of node n, all others fixed:

1. average its rates over the parents:  A(x,y) = E_n[R(x,y)],  E_n[g] = Σ_u m^u g(u),
   with m^u the product of the parents' marginals;
2. collect what its children say:  ψ(x') = Σ_children j Σ_{x,y} w_j(x,y) E_j[R_j(x,y) | x'],
   where w_j(x,y) = f_j(x) ρ_j(y) and E_j[· | x'] fixes n at x' among the parents of j; ψ joins the
   diagonal of A;
3. run ρ backward by dρ/dt = −A ρ and f forward by df/dt = Aᵀ f, multiplying both by the
   likelihoods of the measurements where there are any;
4. store W = ∫ f(x) ρ(y) dt of every time step for the neighbours' next updates.

Sweeping over the nodes until nothing changes gives a stationary point of the star's variational
energy F, which approximates ln P(Y); it is not a bound. F = Σ_n (ln Z_n − ∫ Σ_x m_n ψ_n dt) there.
The loops are in ``kernels/node_steps.py`` and ``kernels/passes.py``; mean field, ``mean_field.py``,
differs only in what is averaged in steps 1 and 2.
"""

from __future__ import annotations

from asterism.inference.evidence import FloatArray
from asterism.model.compiled import CompiledNetwork


def star_table(network: CompiledNetwork) -> FloatArray:
    """What the star averages over parents, on and off the diagonal: the intensities themselves."""
    return network.rates
