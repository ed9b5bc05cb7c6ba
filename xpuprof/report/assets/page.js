// SPDX-License-Identifier: Apache-2.0
// Draws the page's data (report/page.py): points coloured by cluster, sortable tables.
"use strict";
(() => {
  const { slices, names, clusters, representatives, kernels, unit, clustered } = DATA;
  // Distinct under the common colour vision deficiencies; further clusters repeat the colours.
  const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a800", "#777777"];
  const colour = (cluster) => (cluster < 0 ? "#bbbbbb" : COLOURS[cluster % COLOURS.length]);
  const byId = (id) => document.getElementById(id);

  // ---- numbers as text
  const count = (n) => n.toLocaleString("en-US");
  const digits = (x) => Number(x.toPrecision(4)).toLocaleString("en-US", { maximumSignificantDigits: 4 });
  const percent = (x) => (100 * x).toFixed(2).replace(/^-(0\.00)$/, "$1") + " %";
  function amount(x) {
    if (unit !== "s") return digits(x) + " " + unit;
    const [scale, name] = Math.abs(x) >= 1 ? [1, "s"] : Math.abs(x) >= 1e-3 ? [1e3, "ms"] : [1e6, "us"];
    return Number((x * scale).toPrecision(3)) + " " + name;
  }
  const short = (kernel) => names[kernel][0];

  // ---- plot
  const multiplier = new Map(representatives.map((r) => [r.slice, r.multiplier]));
  const HEIGHTS = [
    ["value", unit === "s" ? "slice time" : unit, amount],
    ["cpu_instructions", "CPU instructions", count],
    ["gpu_instructions", "GPU instructions", count],
  ].filter(([name]) => slices[name]);
  const shares = slices.cpu_instructions && slices.gpu_instructions
    ? slices.gpu_instructions.map((g, i) => g / Math.max(1, g + slices.cpu_instructions[i])) : null;
  if (shares) HEIGHTS.push(["share", "GPU share of instructions", percent]);
  const ACROSS = [["index", "slice"]];
  if (slices.value) ACROSS.unshift(["start", unit === "s" ? "time, s" : unit]);
  const column = (name) => (name === "share" ? shares : slices[name]);

  const state = { height: HEIGHTS[0], across: ACROSS[0], logarithmic: true, cluster: null, plot: null, order: [] };
  const visible = (i) => state.cluster === null || slices.cluster[i] === state.cluster;

  function draw(u) {
    const { ctx } = u, ratio = devicePixelRatio, diamonds = [];
    const [low, high] = [u.scales.x.min, u.scales.x.max];
    ctx.save();
    ctx.beginPath();
    ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
    ctx.clip();
    for (let at = 0; at < state.order.length; at++) {
      const x = u.data[0][at], y = u.data[1][at], i = state.order[at];
      if (x < low || x > high || y === null || !visible(i)) continue;
      if (multiplier.has(slices.index[i])) { diamonds.push([x, y, i]); continue; }
      ctx.fillStyle = colour(slices.cluster[i]);
      const size = 3 * ratio;
      ctx.fillRect(u.valToPos(x, "x", true) - size / 2, u.valToPos(y, "y", true) - size / 2, size, size);
    }
    for (const [x, y, i] of diamonds) {
      const [px, py, r] = [u.valToPos(x, "x", true), u.valToPos(y, "y", true), 6 * ratio];
      ctx.beginPath();
      ctx.moveTo(px, py - r); ctx.lineTo(px + r, py); ctx.lineTo(px, py + r); ctx.lineTo(px - r, py);
      ctx.closePath();
      ctx.fillStyle = colour(slices.cluster[i]);
      ctx.fill();
      ctx.lineWidth = 1.5 * ratio;
      ctx.strokeStyle = getComputedStyle(document.body).color;
      ctx.stroke();
    }
    ctx.restore();
  }

  // The visible point nearest to the pointer, within 20 pixels.
  function nearest(u) {
    const { left, top } = u.cursor;
    if (left === undefined || left < 0) return null;
    let best = null, distance = 400;
    const first = u.valToIdx(u.posToVal(left - 20, "x")), last = u.valToIdx(u.posToVal(left + 20, "x"));
    for (let at = first; at <= last; at++) {
      const y = u.data[1][at];
      if (y === null || !visible(state.order[at])) continue;
      const dx = u.valToPos(u.data[0][at], "x") - left, dy = u.valToPos(y, "y") - top;
      if (dx * dx + dy * dy < distance) { distance = dx * dx + dy * dy; best = at; }
    }
    return best;
  }

  function describe(i) {
    const [name, full] = names[slices.kernel[i]];
    const rows = [["slice", count(slices.index[i])]];
    if (slices.call) rows.push(["call", count(slices.call[i])]);
    if (slices.process) rows.push(["process", slices.process[i]]);
    if (slices.value) rows.push([unit === "s" ? "time" : unit, amount(slices.value[i])]);
    for (const side of ["cpu", "gpu"])
      if (slices[side + "_instructions"]) rows.push([side.toUpperCase() + " instructions", count(slices[side + "_instructions"][i])]);
    if (clustered) rows.push(["cluster", slices.cluster[i]]);
    const times = multiplier.get(slices.index[i]);
    if (times !== undefined) rows.push(["representative, multiplier", digits(times)]);
    const box = document.createElement("div"), head = document.createElement("b");
    head.textContent = name;
    head.title = full;
    box.append(head, ...rows.map(([label, text]) => {
      const line = document.createElement("div");
      line.textContent = label + ": " + text;
      return line;
    }));
    return box;
  }

  function hover(u) {
    const at = nearest(u), box = byId("hover");
    box.hidden = at === null;
    if (at === null) return;
    const over = u.over.getBoundingClientRect();
    box.replaceChildren(describe(state.order[at]));
    box.style.left = over.left + scrollX + u.cursor.left + 16 + "px";
    box.style.top = over.top + scrollY + u.cursor.top + 16 + "px";
  }

  // Room at both ends, so that no diamond is cut.
  const padded = (_, low, high) => [low - 0.01 * (high - low || 1), high + 0.01 * (high - low || 1)];

  function plot() {
    const [name, label, text] = state.height, [across, acrossLabel] = state.across;
    const xs = column(across), ys = column(name), logarithmic = state.logarithmic && name !== "share";
    state.order = Array.from(xs.keys()).sort((a, b) => xs[a] - xs[b]);
    const data = [
      Float64Array.from(state.order, (i) => xs[i]),
      state.order.map((i) => (logarithmic && ys[i] <= 0 ? null : ys[i])),
    ];
    if (state.plot) state.plot.destroy();
    const ink = getComputedStyle(document.body).color;
    const grid = { stroke: getComputedStyle(document.documentElement).getPropertyValue("--line"), width: 1 };
    const axis = { stroke: ink, grid, ticks: grid };
    state.plot = new uPlot({
      width: byId("plot").clientWidth, height: 380,
      legend: { show: false },
      cursor: { drag: { x: true, y: true, uni: 30 }, points: { show: false } },
      scales: { x: { time: false, range: padded }, y: { distr: logarithmic ? 3 : 1 } },
      axes: [
        { ...axis, label: acrossLabel },
        { ...axis, label, size: 80, values: (_, ticks) => ticks.map((t) => (t === null ? "" : text(t))) },
      ],
      series: [{}, { paths: () => null, points: { show: false } }],
      hooks: { draw: [draw], setCursor: [hover] },
    }, data, byId("plot"));
    window.xpuprofPlot = state.plot;
  }

  function choices(id, list, chosen) {
    const select = byId(id);
    list.forEach(([, label], i) => select.add(new Option(label, i)));
    select.onchange = () => { state[chosen] = list[select.value]; plot(); };
  }

  // ---- tables
  function fill(id, columns, rows, sorted, pick) {
    const table = byId(id), head = table.createTHead().insertRow(), body = table.createTBody();
    let by = columns.findIndex((c) => c.key === sorted), descending = true;
    function show() {
      const key = columns[by].key, sign = descending ? -1 : 1;
      const value = (row) => (columns[by].order ? columns[by].order(row) : row[key]);
      rows.sort((a, b) => (value(a) < value(b) ? -sign : value(a) > value(b) ? sign : 0));
      [...head.cells].forEach((cell, i) => i === by
        ? cell.setAttribute("aria-sort", descending ? "descending" : "ascending") : cell.removeAttribute("aria-sort"));
      body.replaceChildren(...rows.map(line));
    }
    function line(row) {
      const tr = document.createElement("tr");
      for (const { text, cell, className } of columns) {
        const td = tr.insertCell();
        if (className) td.className = className;
        if (cell) td.append(...cell(row)); else td.textContent = text(row);
        if (row.kernel !== undefined && className) td.title = names[row.kernel][1];
      }
      if (pick) { tr.className = "pick"; tr.onclick = () => pick(row, tr); }
      return tr;
    }
    columns.forEach(({ label, className }, i) => {
      const th = document.createElement("th");
      th.textContent = label;
      th.tabIndex = 0;
      if (className) th.className = className;
      th.onclick = () => { descending = i === by ? !descending : !className; by = i; show(); };
      th.onkeydown = (event) => { if (event.key === "Enter") th.click(); };
      head.append(th);
    });
    show();
  }

  const dot = (cluster) => {
    const span = document.createElement("span");
    span.className = "dot";
    span.style.background = colour(cluster);
    return span;
  };
  const kernelColumn = { key: "kernel", label: "kernel", className: "text", order: (r) => short(r.kernel), text: (r) => short(r.kernel) };
  const clusterColumn = { key: "cluster", label: "cluster", cell: (r) => [dot(r.cluster), r.cluster < 0 ? "not covered" : String(r.cluster)] };
  const number = (key, label, text = (r) => count(r[key])) => ({ key, label, text });

  function parts(row) {
    const bar = document.createElement("div");
    bar.className = "parts";
    for (const [cluster, n] of row.clusters) {
      const part = document.createElement("span");
      part.style.flex = n;
      part.style.background = colour(cluster);
      part.title = "cluster " + cluster + ": " + count(n) + " slices";
      bar.append(part);
    }
    return [bar];
  }

  function choose(cluster, row) {
    const same = state.cluster === cluster;
    document.querySelectorAll("tr.chosen").forEach((tr) => tr.classList.remove("chosen"));
    state.cluster = same ? null : cluster;
    if (!same && row) row.classList.add("chosen");
    byId("everything").hidden = same;
    state.plot.redraw(false);
  }

  if (!clustered) document.querySelectorAll(".clustered").forEach((one) => one.classList.add("hidden"));
  if (!clusters.length) byId("clusters-section").classList.add("hidden");
  if (slices.index.length < slices.total)
    byId("thinned").textContent = count(slices.index.length) + " of " + count(slices.total) + " slices are drawn, all representatives among them; the tables cover all.";
  choices("height", HEIGHTS, "height");
  choices("across", ACROSS, "across");
  byId("logarithmic").onchange = (event) => { state.logarithmic = event.target.checked; plot(); };
  byId("everything").onclick = () => choose(state.cluster, null);
  plot();
  addEventListener("resize", () => state.plot.setSize({ width: byId("plot").clientWidth, height: 380 }));
  byId("plot").addEventListener("mouseleave", () => { byId("hover").hidden = true; });

  fill("clusters", [
    clusterColumn, kernelColumn, number("slices", "slices"), number("representatives", "representatives"),
    number("share", "share of the run", (r) => percent(r.share)), number("spread", "spread of values", (r) => percent(r.spread)),
    number("error", "error", (r) => percent(r.error)), number("gain", "gain of one more", (r) => percent(r.gain)),
  ], clusters, "share", (row, tr) => choose(row.cluster, tr));
  const repColumns = [
    number("slice", "slice"), kernelColumn, number("call", "call"), clusterColumn,
    number("multiplier", "multiplier", (r) => digits(r.multiplier)),
  ];
  if (slices.value) repColumns.push(number("value", unit === "s" ? "slice time" : unit, (r) => amount(r.value)),
    { key: "projected", label: "projected", order: (r) => r.value * r.multiplier, text: (r) => amount(r.value * r.multiplier) });
  fill("representatives", repColumns, representatives, slices.value ? "projected" : "multiplier");
  const kernelColumns = [kernelColumn, number("calls", "calls")];
  if (slices.value) kernelColumns.push(number("total", unit === "s" ? "time" : unit, (r) => amount(r.total)), number("share", "share", (r) => percent(r.share)));
  for (const side of ["gpu", "cpu"])
    if (slices[side + "_instructions"]) kernelColumns.push(number(side + "_instructions", side.toUpperCase() + " instructions"));
  if (clustered) kernelColumns.push({ key: "clusters", label: "clusters", order: (r) => r.clusters.length, cell: parts });
  fill("kernels", kernelColumns, kernels, slices.value ? "total" : "calls");
})();
