/* Everything that needs the plotting library. */
report.startCourses();
report.startRates();
report.drawHeatmap();
report.drawCurves();
report.drawHistory();
report.startSaving();
report.startPrinting();
{
  // begin with the child of the surest edge of the graph: there is something to see
  const surest = report.edges.find((edge) => edge.in_graph);
  report.announce("node", surest ? surest.to : 0);
}
