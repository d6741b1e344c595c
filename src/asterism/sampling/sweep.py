"""What one sweep does, and why it is right. Read this first; the files named here carry it out.

Unknown are the paths X, the families (parents) of every node, the rates R, the starting
probabilities and the parameters of learned emissions. A sweep draws each from its distribution
given all the others, so the chain has the posterior as its stationary distribution: the only error
is that of sampling.

1. *Family and rates of node n, given all paths* (``_graphs.py``, ``_families.py``). With jumps M
   and times T counted along the paths,

       P(family | X) ∝ P(family) · Π_{u, x≠y} β^α Γ(M + α) / (Γ(α) (T + β)^{M + α})
       R^u(x, y) | family, X ~ Gamma(α + M, β + T)

   The rates are integrated out of the first and then drawn from the second: one block.
2. *Starts and emissions* (``_graphs.py``, ``_emission_draws.py``): Dirichlet, normal–inverse-Gamma
   and Gamma draws, all conjugate. States keep their order: a draw out of order is refused.
3. *Factors on the rates of groups of nodes* (``_factors.py``), of each trajectory or of spans of
   the time: groups with the factors summed out, then the factors from Gamma distributions. With a
   factor f, the time T above counts f times, and the node's rates in step 4 are f R.
4. *Path of node n in one trajectory, given all other paths* (``_path.py``, Rao and Teh 2013). The
   path is a Markov chain with generator R^{u(t)}, u(t) the parents' present configuration. Let
   Ω(u) = 2 max_x exit^u(x). Add imagined jumps at rate Ω(u) − exit^u(x) to the present path. The
   real and the imagined jumps together are a Poisson process W of rate Ω(u), whatever the path. So
   given W alone, the path is a chain in discrete time with transitions I + R^u/Ω(u), which can be
   filtered forwards and drawn backwards. The weight of state x between two points of W is

       exp(− Σ_children ∫ exit_j(u_j with x_n = x) dt) · Π_{jumps of children} R_j(…)
       · likelihoods of measurements · joint likelihoods given the other members

   A recorded jump into y is a point of W at which the chain must move, with weight R(x, y). Where
   the state is known throughout, W has no points. Where the experimenter takes hold of the node
   every state becomes the set one, with weight 1; until it is free again W has no points, and the
   node's own rates count neither for its parents nor for its family.

What may go wrong, and what is done about it:

* *First paths* may be impossible where rates are zero: ``path_chains.py`` raises zeros to a floor
  and lowers it again.
* *Locked nodes* cannot move one at a time: ``locked.py`` makes them one node.
* *Slow mixing*: ``diagnose.py`` compares several chains from different starts (R̂).
  Moves that reverse an edge, or exchange both directions of a reciprocal pair, would gain nothing:
  given all paths the families of two nodes are independent, and each is drawn from its conditional
  already. Paths and families hold each other; only a move that sums a path out could help.

Every trajectory has its own stream of random numbers in every chain, and every node one for its
parameters, so the draws do not depend on the number of threads. The probability of an edge is the
average of P(edge | X), not of zeros and ones, which has a smaller error.
"""
