/* The measurement to expect at each time, with its band, from the state probabilities. */
{
  const BAND = 0.9;

  const normalBelow = (z) => {
    // Abramowitz and Stegun's rational approximation, good to 1e-7: plenty for a drawn band
    const t = 1 / (1 + 0.2316419 * Math.abs(z));
    const tail = Math.exp(-z * z / 2) / Math.sqrt(2 * Math.PI)
      * t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))));
    return z > 0 ? 1 - tail : tail;
  };

  /** The value below which a mixture of the states' measurements falls with probability q. */
  const mixtureQuantile = (weights, mean, sd, q) => {
    let low = Math.min(...mean.map((m, s) => m - 6 * sd[s])), high = Math.max(...mean.map((m, s) => m + 6 * sd[s]));
    for (let round = 0; round < 40; round += 1) {
      const middle = (low + high) / 2;
      const below = weights.reduce((sum, w, s) => sum + w * normalBelow((middle - mean[s]) / sd[s]), 0);
      if (below < q) low = middle; else high = middle;
    }
    return (low + high) / 2;
  };

  /** Thousandths as they come (one list per state) to weights that sum to one (one list per time). */
  report.weights = (p) => p[0].map((_, k) => {
    const total = p.reduce((sum, line) => sum + line[k], 0) || 1;
    return p.map((line) => line[k] / total);
  });

  report.expectation = (p, { mean, sd }) => {
    const at = report.weights(p);
    return {
      middle: at.map((w) => w.reduce((sum, value, s) => sum + value * mean[s], 0)),
      low: at.map((w) => mixtureQuantile(w, mean, sd, (1 - BAND) / 2)),
      high: at.map((w) => mixtureQuantile(w, mean, sd, (1 + BAND) / 2)),
    };
  };

  report.bandPath = (times, low, high, x, y) => {
    const there = times.map((t, k) => `${x(t).toFixed(1)} ${y(high[k]).toFixed(1)}`);
    const back = times.map((t, k) => `${x(t).toFixed(1)} ${y(low[k]).toFixed(1)}`).reverse();
    return `M${[...there, ...back].join("L")}Z`;
  };

  /** One closed path per state, stacked from the bottom. */
  report.stackPaths = (times, p, x, y) => {
    const at = report.weights(p);
    let floor = times.map(() => 0);
    return p.map((_, s) => {
      const roof = floor.map((v, k) => v + at[k][s]);
      const path = report.bandPath(times, floor, roof, x, y);
      floor = roof;
      return path;
    });
  };
}
