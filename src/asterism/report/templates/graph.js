/* Nodes as boxes and edges as arrows: what every drawing of a network uses. */
{
  const HALF_HEIGHT = 13, MARGIN = 22;
  const shorten = (name) => report.shorten(name, 16);
  /** Half the width of a node's box; wide scripts take two places per character. */
  const halfWidth = (name) => {
    const places = [...shorten(name)].reduce((sum, c) => sum + (c.codePointAt(0) > 0x2e80 ? 2 : 1), 0);
    return Math.max(16, 4.1 * places + 9);
  };

  /** Positions in the drawing from positions in units of a node: {node: {x, y, half}}. */
  report.places = (layout, nameOf) => {
    const widest = Math.max(16, ...Object.keys(layout).map((node) => halfWidth(nameOf(node))));
    const spacing = { x: Math.max(110, 2 * widest + 52), y: Math.max(100, widest + 60) };
    return Object.fromEntries(Object.entries(layout).map(([node, [x, y]]) => (
      [node, { x: x * spacing.x, y: y * spacing.y, half: halfWidth(nameOf(node)) }])));
  };

  /** The line of an edge from rim to rim and its head: an arrow, or a bar with `tee`; `at` gives points along the line. */
  report.arrow = (from, to, { width, bend, tee = false, halfHeight = HALF_HEIGHT }) => {
    const dx = to.x - from.x, dy = to.y - from.y, length = Math.hypot(dx, dy) || 1;
    const mid = { x: (from.x + to.x) / 2 - dy * bend, y: (from.y + to.y) / 2 + dx * bend };
    const towards = (a, b, distance) => {
      const l = Math.hypot(b.x - a.x, b.y - a.y) || 1;
      return { x: a.x + ((b.x - a.x) / l) * distance, y: a.y + ((b.y - a.y) / l) * distance };
    };
    /** How far the rim of a node's box lies from its centre, in the direction of a point. */
    const rim = (box, point) => {
      const l = Math.hypot(point.x - box.x, point.y - box.y) || 1;
      return Math.min((box.half * l) / (Math.abs(point.x - box.x) || 1e-9), (halfHeight * l) / (Math.abs(point.y - box.y) || 1e-9));
    };
    const size = 6 + 1.6 * width;
    const start = towards(from, mid, rim(from, mid) + 1);
    const tip = towards(to, mid, rim(to, mid) + (tee ? 5 : 3));
    const neck = towards(tip, mid, tee ? 0 : Math.min(size * 0.9, 0.4 * length));
    const angle = Math.atan2(tip.y - mid.y, tip.x - mid.x);
    const across = { x: -Math.sin(angle), y: Math.cos(angle) };
    const half = tee ? 5 + width : size * 0.5;
    const left = { x: neck.x + across.x * half, y: neck.y + across.y * half };
    const right = { x: neck.x - across.x * half, y: neck.y - across.y * half };
    const along = (a, b, c, t) => (1 - t) ** 2 * a + 2 * t * (1 - t) * b + t ** 2 * c;
    return {
      line: `M${start.x} ${start.y}Q${mid.x} ${mid.y} ${neck.x} ${neck.y}`,
      head: tee ? `M${left.x} ${left.y}L${right.x} ${right.y}` : `M${tip.x} ${tip.y}L${left.x} ${left.y}L${right.x} ${right.y}Z`,
      at: (t) => ({ x: along(start.x, mid.x, neck.x, t), y: along(start.y, mid.y, neck.y, t) }),
    };
  };

  const bounds = (boxes) => ({
    left: Math.min(...boxes.map(({ x, half }) => x - half)) - MARGIN, right: Math.max(...boxes.map(({ x, half }) => x + half)) + MARGIN,
    top: Math.min(...boxes.map(({ y }) => y)) - HALF_HEIGHT - MARGIN, bottom: Math.max(...boxes.map(({ y }) => y)) + HALF_HEIGHT + MARGIN,
  });

  /** How far an edge bends so that it runs behind no other node nor out of the drawing: the first bend that is free. */
  report.freeBend = (from, to, boxes, first) => {
    const others = boxes.filter((box) => box !== from && box !== to);
    const sign = Math.sign(first) || 1;
    const { left, right, top, bottom } = bounds(boxes);
    const bends = [first, -0.14, 0.14, 0.28, -0.28, 0.42, -0.42, 0.6, -0.6].filter((bend) => first < 0.1 || bend * sign > 0.1);
    const hidden = (bend) => {
      const mid = { x: (from.x + to.x) / 2 - (to.y - from.y) * bend, y: (from.y + to.y) / 2 + (to.x - from.x) * bend };
      let found = 0;
      for (let t = 0.06; t < 0.95; t += 0.04) {
        const x = (1 - t) ** 2 * from.x + 2 * t * (1 - t) * mid.x + t ** 2 * to.x, y = (1 - t) ** 2 * from.y + 2 * t * (1 - t) * mid.y + t ** 2 * to.y;
        if (x < left || x > right || y < top || y > bottom || others.some((box) => Math.abs(x - box.x) < box.half + 4 && Math.abs(y - box.y) < HALF_HEIGHT + 4)) found += 1;
      }
      return found;
    };
    return bends.reduce((best, bend) => (best.hidden && hidden(bend) < best.hidden ? { bend, hidden: hidden(bend) } : best), { bend: first, hidden: hidden(first) }).bend;
  };

  report.nodeBox = ({ x, y, half }, name, attributes = {}) => report.svg("g", { class: "node", ...attributes },
    report.svg("title", { "aria-hidden": "true" }, name),
    report.svg("rect", { x: x - half, y: y - HALF_HEIGHT, width: 2 * half, height: 2 * HALF_HEIGHT, rx: HALF_HEIGHT }),
    report.svg("text", { x, y, "aria-hidden": "true" }, shorten(name)));

  /** The part of the plane that holds all places, with a margin. */
  report.viewOf = (places) => {
    const { left, right, top, bottom } = bounds(Object.values(places)), wide = right - left, high = bottom - top;
    // very small networks would otherwise fill the page with huge nodes
    const width = Math.max(wide, 420), height = Math.max(high, 240);
    return { x: left - (width - wide) / 2, y: top - (height - high) / 2, width, height };
  };
}
