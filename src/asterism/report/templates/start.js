/* Everything begins here: drawing, table and slider first, then the charts. */
if (report.byId("drawing")) report.startNetwork();
if (report.byId("edge-table")) report.startEdgeTable();
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
report.startHeatmap();
report.startCourses();
report.startFit();
report.startRates();
report.drawCurves();
report.drawHistory();
report.startSaving();
report.startCopying();
report.chooseNode(report.first_node);
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  report.hideTip();
  report.chooseEdge(null);
});
