// SPDX-License-Identifier: Apache-2.0
// Draws methods compared (report/compare.py): error against speedup, and the table.
(() => {
  const { byId, element, count, percent, timesLess, fill, number, bars } = xp;
  const HEIGHT = 480, LEAST = 1e-6, ROOM = 4;
  const ERRORS = [["error_mean", "mean, worst seed"], ["error_unmeasured", "of what was not measured"]];
  const state = { run: DATA.runs[0], error: ERRORS[0], plot: null };

  const shown = () => state.run.methods.filter((m) => !m.reason && m.time_speedup !== null && m[state.error[0]] !== null);
  const heightOf = (m) => Math.max(m[state.error[0]], LEAST);
  const worstOf = (m) => (state.error[0] === "error_mean" ? Math.max(m.error_max, heightOf(m)) : heightOf(m));
  const isBest = (m) => !shown().some((o) => o !== m && heightOf(o) <= heightOf(m) && o.time_speedup >= m.time_speedup
    && (heightOf(o) < heightOf(m) || o.time_speedup > m.time_speedup));

  function draw(u) {
    const { ctx, bbox } = u, ratio = devicePixelRatio, r = 5 * ratio, ink = xp.style("--ink"), mark = xp.style("--mark");
    const points = shown().map((m) => ({
      m, x: u.valToPos(m.time_speedup, "x", true), y: u.valToPos(heightOf(m), "y", true), top: u.valToPos(worstOf(m), "y", true), best: isBest(m),
    }));
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.lineWidth = 1.5 * ratio;
    for (const { x, y, top, best } of points) {
      ctx.strokeStyle = best ? mark : xp.REST;
      ctx.beginPath();
      ctx.moveTo(x, y); ctx.lineTo(x, top); ctx.moveTo(x - r / 2, top); ctx.lineTo(x + r / 2, top);
      ctx.stroke();
      ctx.beginPath();
      ctx.arc(x, y, r, 0, 2 * Math.PI);
      ctx.fillStyle = best ? mark : xp.style("--paper");
      ctx.fill();
      ctx.stroke();
    }
    ctx.font = `${12 * ratio}px system-ui`;
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    const places = labels(ctx, points, bbox, r);
    places.forEach(({ box, point }) => {
      const near = [Math.max(box[0], Math.min(point.x, box[2])), Math.max(box[1], Math.min(point.y, box[3]))];
      if (Math.hypot(near[0] - point.x, near[1] - point.y) > 2.5 * r) {
        ctx.strokeStyle = xp.style("--line");
        ctx.beginPath();
        ctx.moveTo(point.x, point.y); ctx.lineTo(...near);
        ctx.stroke();
      }
      ctx.fillStyle = ink;
      ctx.fillText(point.m.method, box[0], (box[1] + box[3]) / 2);
    });
    ctx.restore();
    window.xpuprofLabels = places.map(({ box, point }) => [point.m.method, ...box]);
  }

  // A place for each name where it covers no point, bar or other name: beside its point, or as near as
  // there is room.
  function labels(ctx, points, bbox, r) {
    const ratio = devicePixelRatio, height = 14 * ratio, gap = ROOM * ratio + r;
    const taken = points.flatMap(({ x, y, top }) => [[x - r, y - r, x + r, y + r], [x - r / 2, top, x + r / 2, y]]);
    const free = (box) => box[0] >= bbox.left && box[2] <= bbox.left + bbox.width && box[1] >= bbox.top
      && box[3] <= bbox.top + bbox.height && !taken.some((o) => box[0] < o[2] && o[0] < box[2] && box[1] < o[3] && o[1] < box[3]);
    const placed = [];
    for (const point of [...points].sort((a, b) => b.best - a.best)) {
      const width = ctx.measureText(point.m.method).width;
      const at = (dx, dy) => {
        const left = point.x + (dx > 0 ? dx : dx < 0 ? dx - width : -width / 2), top = point.y + dy - height / 2;
        return [left, top, left + width, top + height];
      };
      const tries = [at(gap, 0), at(-gap, 0), at(0, gap + height / 2), at(0, -gap - height / 2)];
      for (let far = 1; far < 40; far++)
        for (const side of [1, -1]) for (const down of [1, -1])
          tries.push(at(side * (gap + 2 * far * ratio), down * far * height / 2));
      const box = tries.find(free) || tries[0];
      taken.push(box);
      placed.push({ box, point });
    }
    return placed;
  }

  function hover(u) {
    const { left, top } = u.cursor;
    let best = null, distance = 400;
    if (left !== undefined && left >= 0) for (const m of shown()) {
      const dx = u.valToPos(m.time_speedup, "x") - left, dy = u.valToPos(heightOf(m), "y") - top;
      if (dx * dx + dy * dy < distance) { distance = dx * dx + dy * dy; best = m; }
    }
    xp.showHover(u, best && xp.described(best.method, "", [
      ["error, mean", percent(best.error_mean)], ["worst seed", percent(best.error_max)],
      [speedupLabel(), timesLess(best.time_speedup)], ["samples", count(Math.round(best.samples))],
      ["interval", best.interval]]));
  }

  const speedupLabel = () => (state.run.timed ? "time speedup" : "speedup");

  function plot() {
    const points = shown(), wide = (values) => {
      const [low, high] = [Math.min(...values), Math.max(...values)].map(Math.log10), more = 0.08 * (high - low || 1);
      return [10 ** (low - more), 10 ** (high + more)];
    };
    if (state.plot) state.plot.destroy();
    state.plot = null;
    byId("plot").replaceChildren();
    if (!points.length) return;
    const xs = wide(points.map((m) => m.time_speedup)), ys = wide(points.flatMap((m) => [heightOf(m), worstOf(m)]));
    const short = (x) => Number(x.toPrecision(3)).toLocaleString("en-US", { maximumFractionDigits: 6 });
    const values = (unit) => (_, ticks) => ticks.map((t) => (t === null ? "" : short(unit === "%" ? 100 * t : t) + (unit === "%" ? " %" : unit)));
    state.plot = new uPlot({
      width: byId("plot").clientWidth, height: HEIGHT,
      legend: { show: false },
      cursor: { drag: { x: true, y: true, uni: 30 }, points: { show: false } },
      scales: { x: { time: false, distr: 3, range: () => xs }, y: { distr: 3, range: () => ys } },
      axes: [
        xp.logarithmicAxis({ label: speedupLabel() + " (whole over measured)", values: values("x") }),
        xp.logarithmicAxis({ label: "sampling error of " + state.run.metric, size: 76, values: values("%") }),
      ],
      series: [{}, { paths: () => null, points: { show: false } }],
      hooks: { draw: [draw], setCursor: [hover] },
    }, sorted(points), byId("plot"));
  }

  function sorted(points) {
    const order = [...points].sort((a, b) => a.time_speedup - b.time_speedup);
    return [order.map((m) => m.time_speedup), order.map(heightOf)];
  }

  function tables() {
    const rows = state.run.methods.filter((m) => !m.reason), table = byId("methods");
    table.replaceChildren();
    const known = (key, text) => (r) => (r[key] === null ? "" : text(r[key]));
    const columns = [
      { key: "method", label: "method", className: "text", text: (r) => r.method },
      bars("error_mean", "error", rows, (r) => percent(r.error_mean)),
      number("error_max", "worst", known("error_max", percent)), number("error_inner", "without ends", known("error_inner", percent)),
      number("error_unmeasured", "of unmeasured", known("error_unmeasured", percent)), number("measured_share", "measured", known("measured_share", percent)),
      number("time_speedup", speedupLabel(), known("time_speedup", timesLess)), number("samples", "samples", known("samples", (n) => count(Math.round(n)))),
      { key: "interval", label: "interval", text: (r) => r.interval, order: (r) => r.interval_rel },
      number("coverage", "held", known("coverage", (x) => percent(x).replace(/\.00/, ""))),
      number("selection_s", "selection", known("selection_s", (x) => xp.amount(x, "s"))),
    ];
    fill(table, columns, rows, "time_speedup");
    const out = state.run.methods.filter((m) => m.reason);
    byId("left-out-section").hidden = !out.length;
    byId("left-out").replaceChildren(...out.map((m) => element("li", { textContent: m.reason })));
  }

  function choices(id, list, text, then) {
    list.forEach((one, i) => byId(id).add(new Option(text(one), i)));
    if (list.length < 2) byId(id).parentElement.hidden = true;
    byId(id).onchange = () => then(list[byId(id).value]);
  }

  document.body.classList.add("wide");
  choices("of", DATA.runs, (run) => run.run, (run) => { state.run = run; plot(); tables(); });
  choices("error", ERRORS, ([, text]) => text, (error) => { state.error = error; plot(); });
  plot();
  tables();
  addEventListener("resize", () => state.plot && state.plot.setSize({ width: byId("plot").clientWidth, height: HEIGHT }));
  byId("plot").addEventListener("mouseleave", () => { byId("hover").hidden = true; });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", plot);
})();
