/* Everything begins here: drawing, table and slider first, then the charts. */
for (const start of ["startNetwork", "startEdgeTable"]) report[start]?.();
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
const parts = ["startHeatmap", "startCourses", "startFit", "startRates", "drawCurves", "drawHistory", "drawPanels", "startFitted", "startCompared", "startSaving", "startCopying"];
for (const part of parts) report[part]?.(); // a page has only some of them
report.chooseNode(report.first_node);
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  report.hideTip();
  report.chooseEdge(null);
});
