/* First screen: drawing, table and slider. */
report.startNetwork();
report.startEdgeTable();
{
  const slider = report.byId("threshold");
  if (slider) {
    let waiting = false;
    slider.addEventListener("input", () => {
      report.byId("threshold-value").textContent = Number(slider.value).toFixed(2);
      if (waiting) return;
      waiting = true; // at most one redraw per frame, however fast the slider moves
      requestAnimationFrame(() => {
        waiting = false;
        report.threshold = Number(slider.value);
        report.announce("threshold", report.threshold);
      });
    });
  }
}
