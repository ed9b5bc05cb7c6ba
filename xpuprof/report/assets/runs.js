// SPDX-License-Identifier: Apache-2.0
// Draws runs (report/page.py): slices over time as points coloured by cluster, sortable tables.
(() => {
  const { byId, element, count, factor, percent, amount, colourOf, fill, number, bars, signedBars } = xp;
  const HEIGHT = 400, WHEEL = 1.25;
  const runs = DATA.runs, several = runs.length > 1;
  const clustered = runs.some((run) => run.clustered);
  const { unit } = runs[0], timed = runs.some((run) => run.slices.value);

  // ---- what is drawn
  for (const run of runs) {
    const { slices } = run;
    run.multiplier = new Map(run.representatives.map((r) => [r.slice, r.multiplier]));
    slices.share = slices.cpu_instructions && slices.gpu_instructions
      ? slices.gpu_instructions.map((g, i) => g / Math.max(1, g + slices.cpu_instructions[i])) : null;
    // Clusters and kernels by weight: the heaviest get colours of their own.
    const weight = (c) => (c.share === undefined ? c.slices / slices.total : c.share);
    const ranked = {
      cluster: run.clusters.map((c) => ({ id: c.cluster, weight: weight(c), name: run.names[c.kernel][0], cluster: true })),
      kernel: run.kernels.map((k) => ({ id: k.kernel, weight: k.share === undefined ? k.calls / slices.total : k.share, name: run.names[k.kernel][0] })),
    };
    run.groups = {}, run.ranks = {};
    for (const [kind, list] of Object.entries(ranked)) {
      run.groups[kind] = list.sort((a, b) => b.weight - a.weight);
      run.ranks[kind] = new Map(list.map((group, rank) => [group.id, group.cluster && group.id < 0 ? Infinity : rank]));
    }
  }
  const HEIGHTS = [
    ["value", unit === "s" ? "slice time" : unit, (x) => xp.tick(x, unit)],
    ["cpu_instructions", "CPU instructions", count],
    ["gpu_instructions", "GPU instructions", count],
    ["share", "GPU share of instructions", percent],
  ].filter(([name]) => runs.some((run) => run.slices[name]));
  const ACROSS = [["index", "slice"]];
  if (timed) ACROSS.unshift(["start", unit === "s" ? "time" : unit]);
  const COLOURINGS = [["kernel", "kernel"]];
  if (clustered) COLOURINGS.unshift(["cluster", "cluster"]);

  // `chosen`: {run, kind, id} of the cluster or kernel that is shown alone.
  const state = { height: HEIGHTS[0], across: ACROSS[0], colour: COLOURINGS[0], logarithmic: true, chosen: null };
  const isChosen = (run, kind, id) => state.chosen !== null && state.chosen.run === run && state.chosen.kind === kind && state.chosen.id === id;
  const isVisible = (run, i) => {
    const { chosen } = state;
    return chosen === null || chosen.run !== run || run.slices[chosen.kind][i] === chosen.id;
  };

  // ---- plot
  // Points go into an image: 100,000 take milliseconds. What is drawn last lies on top: the rarest.
  function draw(run, u) {
    const { bbox, scales: { x, y } } = u, ratio = devicePixelRatio;
    const width = Math.round(bbox.width), height = Math.round(bbox.height);
    if (!(width > 0 && height > 0)) return;
    const image = run.image && run.image.width === width && run.image.height === height
      ? run.image : (run.image = new ImageData(width, height));
    const pixels = new Uint32Array(image.data.buffer);
    pixels.fill(0);
    const bend = y.distr === 3 ? Math.log10 : (v) => v;
    const [low, high] = [bend(y.min), bend(y.max)], perX = width / (x.max - x.min), perY = height / (high - low);
    const kind = state.colour[0], ids = run.slices[kind], [xs, ys] = u.data;
    const first = lowerBound(xs, x.min), last = lowerBound(xs, x.max + Number.EPSILON * Math.abs(x.max));
    const size = Math.round((last - first < 3000 ? 5 : 3) * ratio), round = size > 4 * ratio ? Math.round(ratio) : 0;
    const diamonds = [];
    for (let at = first; at < Math.min(last + 1, xs.length); at++) {
      const i = run.order[at];
      if (ys[at] === null || xs[at] > x.max || !isVisible(run, i)) continue;
      const px = (xs[at] - x.min) * perX, py = height - (bend(ys[at]) - low) * perY;
      if (run.multiplier.has(run.slices.index[i])) { diamonds.push([bbox.left + px, bbox.top + py, ids[i]]); continue; }
      square(pixels, width, height, Math.round(px - size / 2), Math.round(py - size / 2), size, round, run.inks[kind].get(ids[i]));
    }
    run.canvas.width = width;
    run.canvas.height = height;
    run.canvas.getContext("2d").putImageData(image, 0, 0);
    u.ctx.save();
    u.ctx.beginPath();
    u.ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    u.ctx.clip();
    u.ctx.drawImage(run.canvas, Math.round(bbox.left), Math.round(bbox.top));
    u.ctx.lineWidth = 1.2 * ratio;
    u.ctx.strokeStyle = xp.style("--ink");
    for (const [px, py, id] of diamonds) diamond(u.ctx, px, py, (diamonds.length < 200 ? 6 : 4) * ratio, colourOf(run.ranks[kind].get(id)));
    u.ctx.restore();
  }

  function square(pixels, width, height, left, top, size, round, ink) {
    for (let dy = 0; dy < size; dy++) {
      const y = top + dy, edge = dy < round || dy >= size - round ? round : 0;
      if (y < 0 || y >= height) continue;
      for (let x = Math.max(0, left + edge); x < Math.min(width, left + size - edge); x++) pixels[y * width + x] = ink;
    }
  }

  function diamond(ctx, x, y, r, colour) {
    ctx.beginPath();
    ctx.moveTo(x, y - r); ctx.lineTo(x + r, y); ctx.lineTo(x, y + r); ctx.lineTo(x - r, y);
    ctx.closePath();
    ctx.fillStyle = colour;
    ctx.fill();
    ctx.stroke();
  }

  // A colour as a pixel of an image, little-endian.
  const inkOf = (colour) => {
    const value = parseInt(colour.slice(1), 16);
    return ((255 << 24) | ((value & 255) << 16) | (value & 0xff00) | (value >> 16)) >>> 0;
  };

  function lowerBound(sorted, wanted) {
    let low = 0, high = sorted.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sorted[middle] < wanted) low = middle + 1; else high = middle;
    }
    return low;
  }

  // The visible point nearest to the pointer, within 20 pixels.
  function nearest(run, u) {
    const { left, top } = u.cursor, [xs, ys] = u.data;
    if (left === undefined || left < 0) return null;
    let best = null, distance = 400;
    const last = u.posToVal(left + 20, "x");
    for (let at = lowerBound(xs, u.posToVal(left - 20, "x")); at < xs.length && xs[at] <= last; at++) {
      if (ys[at] === null || !isVisible(run, run.order[at])) continue;
      const dx = u.valToPos(xs[at], "x") - left, dy = u.valToPos(ys[at], "y") - top;
      if (dx * dx + dy * dy < distance) { distance = dx * dx + dy * dy; best = at; }
    }
    return best === null ? null : run.order[best];
  }

  function describe(run, i) {
    const { slices } = run, [name, full] = run.names[slices.kernel[i]];
    const rows = [["slice", count(slices.index[i])]];
    if (slices.call && run.launched[slices.kernel[i]]) rows.push(["call", count(slices.call[i])]);
    if (slices.process) rows.push(["process", slices.process[i]]);
    if (slices.value) rows.push([unit === "s" ? "time" : unit, amount(slices.value[i], unit)]);
    for (const side of ["cpu", "gpu"])
      if (slices[side + "_instructions"]) rows.push([side.toUpperCase() + " instructions", count(slices[side + "_instructions"][i])]);
    if (slices.share) rows.push(["GPU share of instructions", percent(slices.share[i])]);
    if (run.clustered) rows.push(["cluster", slices.cluster[i] < 0 ? "not covered" : slices.cluster[i]]);
    const times = run.multiplier.get(slices.index[i]);
    if (times !== undefined) rows.push(["representative, multiplier", factor(times)]);
    return xp.described(name, full, rows);
  }

  // Room at both ends, so that no diamond is cut.
  const padded = (_, low, high) => [low - 0.01 * (high - low || 1), high + 0.01 * (high - low || 1)];

  const heightRange = (logarithmic) => (_, low, high) => (logarithmic ? [low / 1.5, high * 1.5] : [Math.min(0, low), 1.05 * high || 1]);

  // Runs beside each other share the scale of their heights.
  function commonRange(name, logarithmic) {
    let low = Infinity, high = -Infinity;
    for (const { slices } of runs)
      for (const v of slices[name] || []) if (!logarithmic || v > 0) { low = Math.min(low, v); high = Math.max(high, v); }
    return heightRange(logarithmic)(null, low, high);
  }

  function plot(run) {
    const [name, label, text] = state.height, [across, acrossLabel] = state.across;
    const none = () => new Array(run.slices.index.length).fill(null);
    const xs = run.slices[across] || run.slices.index, ys = run.slices[name] || none();
    const logarithmic = state.logarithmic && name !== "share";
    run.order = Array.from(xs.keys()).sort((a, b) => xs[a] - xs[b]);
    const data = [
      Float64Array.from(run.order, (i) => xs[i]),
      run.order.map((i) => (logarithmic && ys[i] <= 0 ? null : ys[i])),
    ];
    const [timeUnit, scale] = across === "start" && unit === "s" ? xp.scaleOf(data[0][data[0].length - 1]) : ["", 1];
    const common = several && commonRange(name, logarithmic);
    if (run.plot) run.plot.destroy();
    const heights = { label, size: 76, values: (_, ticks) => ticks.map((t) => (t === null ? "" : text(t))) };
    run.plot = new uPlot({
      width: run.box.clientWidth, height: HEIGHT,
      legend: { show: false },
      cursor: { drag: { x: true, y: true, uni: 30 }, points: { show: false } },
      scales: { x: { time: false, range: padded }, y: { distr: logarithmic ? 3 : 1, range: common ? () => common : heightRange(logarithmic) } },
      axes: [
        xp.axis({ label: timeUnit ? `${acrossLabel}, ${timeUnit}` : acrossLabel, values: (_, ticks) => ticks.map((t) => factor(t * scale)) }),
        logarithmic ? xp.logarithmicAxis(heights) : xp.axis(heights),
      ],
      series: [{}, { paths: () => null, points: { show: false } }],
      hooks: { draw: [(u) => draw(run, u)], setCursor: [(u) => hover(run, u)] },
    }, data, run.box);
    window.xpuprofPlot = runs[0].plot;
    run.plot.over.addEventListener("wheel", (event) => wheel(run.plot, event), { passive: false });
  }

  function hover(run, u) {
    const i = nearest(run, u);
    xp.showHover(u, i === null ? null : describe(run, i));
  }

  // Zooms around the pointer, across.
  function wheel(u, event) {
    if (!event.ctrlKey) return;
    event.preventDefault();
    const { min, max } = u.scales.x, [low, high] = [u.data[0][0], u.data[0][u.data[0].length - 1]];
    const at = u.posToVal(u.cursor.left, "x"), by = event.deltaY < 0 ? 1 / WHEEL : WHEEL;
    const [first, last] = padded(null, low, high);
    u.setScale("x", { min: Math.max(first, at - (at - min) * by), max: Math.min(last, at + (max - at) * by) });
  }

  function plotAll() { runs.forEach(plot); }

  // ---- legends: the heaviest clusters or kernels
  function legends() {
    const kind = state.colour[0];
    for (const run of runs) {
      const groups = run.groups[kind], shown = groups.slice(0, xp.COLOURS.length), rest = groups.slice(shown.length);
      const button = (group, rank) => element("button", {
        ariaPressed: String(isChosen(run, kind, group.id)), onclick: () => choose(run, kind, group.id),
      }, dot(colourOf(rank)), group.cluster ? clusterName(group.id) + ":" : "", element("span", { className: "name" }, group.name), percent(group.weight));
      const others = rest.length ? [element("span", { className: "faint" }, dot(xp.REST),
        `${count(rest.length)} ${rest.length > 1 ? "others" : "other"} ${percent(rest.reduce((sum, g) => sum + g.weight, 0))}`)] : [];
      run.legend.replaceChildren(...shown.map(button), ...others);
    }
  }

  const clusterName = (id) => (id < 0 ? "not covered" : "cluster " + id);
  const dot = (colour) => element("span", { className: "dot", style: "background:" + colour });

  function choose(run, kind, id) {
    state.chosen = isChosen(run, kind, id) ? null : { run, kind, id };
    xp.markChosen(state.chosen && markOf(run, kind, id));
    byId("everything").hidden = !state.chosen;
    legends();
    runs.forEach((one) => one.plot.redraw(false));
  }
  const markOf = (run, kind, id) => `${runs.indexOf(run)} ${kind} ${id}`;

  // ---- tables
  const kernelColumn = { key: "kernel", label: "kernel", className: "text", order: (r) => r.name, text: (r) => r.name };
  const named = (run, row) => ({ ...row, name: run.names[row.kernel][0], full: run.names[row.kernel][1] });
  const clusterDot = (run) => ({ key: "cluster", label: "cluster", cell: (r) => [dot(colourOf(run.ranks.cluster.get(r.cluster))), r.cluster < 0 ? "not covered" : String(r.cluster)] });
  const timeLabel = unit === "s" ? "time" : unit;

  function parts(run) {
    return (row) => [element("div", { className: "parts" }, ...row.clusters.map(([cluster, n]) => element("span", {
      style: `flex:${n};background:${colourOf(run.ranks.cluster.get(cluster))}`,
      title: `${clusterName(cluster)}: ${count(n)} slices`,
    })))];
  }

  function kernelsOfOne(run) {
    const rows = run.kernels.map((k) => ({ ...named(run, k), className: run.launched[k.kernel] ? "" : "no", calls: run.launched[k.kernel] ? k.calls : undefined }));
    const columns = [kernelColumn, number("calls", "calls")];
    if (run.slices.value) columns.push(number("total", timeLabel, (r) => amount(r.total, unit)), bars("share", "share", rows, (r) => percent(r.share)));
    for (const side of ["gpu", "cpu"])
      if (run.slices[side + "_instructions"]) columns.push(number(side + "_instructions", side.toUpperCase() + " instructions"));
    if (run.clustered) columns.push({ key: "clusters", label: "clusters", order: (r) => r.clusters.length, cell: parts(run) });
    fillPicking(byId("kernels"), columns, rows, run.slices.value ? "total" : "calls", run, "kernel");
  }

  function kernelsOfSeveral() {
    const rows = new Map();
    runs.forEach((run, n) => run.kernels.forEach((k) => {
      const full = run.names[k.kernel][1];
      const row = rows.get(full) || rows.set(full, { name: run.names[k.kernel][0], full, kernel: full, className: run.launched[k.kernel] ? "" : "no" }).get(full);
      if (run.launched[k.kernel]) row["calls" + n] = k.calls;
      row["total" + n] = k.total;
      row["share" + n] = k.share;
    }));
    const every = [...rows.values()], columns = [kernelColumn];
    runs.forEach((run, n) => {
      columns.push(number("calls" + n, "calls, " + run.name));
      if (run.slices.value) columns.push(number("total" + n, `${timeLabel}, ${run.name}`, (r) => amount(r["total" + n], unit)), bars("share" + n, "share", every, (r) => percent(r["share" + n])));
    });
    if (runs.length === 2 && runs.every((run) => run.slices.value)) {
      const ratio = (r) => r.total1 / r.total0;
      columns.push({ key: "full", label: `${runs[1].name} / ${runs[0].name}`, order: ratio, text: (r) => (ratio(r) === ratio(r) ? factor(ratio(r)) : "") });
    }
    fill(byId("kernels"), columns, every, timed ? "total0" : "calls0");
  }

  // Rows that show their slices alone.
  function fillPicking(table, columns, rows, sorted, run, kind) {
    rows.forEach((row) => { row.mark = markOf(run, kind, row[kind]); });
    fill(table, columns, rows, sorted, (row) => choose(run, kind, row[kind]));
  }

  function details(run) {
    const box = byId("detail").content.cloneNode(true), find = (name) => box.querySelector(name);
    find(".name").textContent = run.name;
    if (!run.clustered) box.querySelectorAll(".clustered").forEach((one) => one.remove());
    if (!several) find(".several").remove();
    if (run.clustered) {
      if (!run.slices.value) find(".timed").remove();
      clusters(run, find(".clusters"));
      representatives(run, find(".representatives"));
    }
    if (!run.settings.length) find(".set").remove();
    else find(".settings").append(...run.settings.map(([name, text]) => element("div", { className: text.length > 24 ? "wide-entry" : "" },
      element("dt", { textContent: name }), element("dd", { textContent: text }))));
    if (!several) for (const name of ["clusters", "representatives"]) if (find("." + name)) find("." + name).id = name;
    byId("details").append(box);
  }

  function clusters(run, table) {
    const rows = run.clusters.map((c) => named(run, c));
    const columns = [clusterDot(run), kernelColumn, number("slices", "slices"), number("representatives", "representatives")];
    if (rows[0].share !== undefined) columns.push(
      bars("share", "share of the run", rows, (r) => percent(r.share)),
      { ...number("spread", "spread", (r) => percent(r.spread)), hint: "standard deviation of its slices' values, over their mean" },
      signedBars("error", "error", rows, (r) => percent(r.error)),
      number("gain", "gain of one more", (r) => percent(r.gain)));
    fillPicking(table, columns, rows, rows[0].share === undefined ? "slices" : "share", run, "cluster");
  }

  function representatives(run, table) {
    const rows = run.representatives.map((r) => ({ ...named(run, r), call: run.launched[r.kernel] ? r.call : undefined }));
    const columns = [number("slice", "slice"), kernelColumn, number("call", "call"), clusterDot(run), number("multiplier", "multiplier", (r) => factor(r.multiplier))];
    if (run.slices.value) {
      rows.forEach((r) => { r.projected = r.value * r.multiplier; });
      columns.push(number("value", unit === "s" ? "slice time" : unit, (r) => amount(r.value, unit)),
        bars("projected", "projected", rows, (r) => amount(r.projected, unit)));
    }
    fill(table, columns, rows, run.slices.value ? "projected" : "multiplier");
  }

  function overview() {
    const names = [...new Set(runs.flatMap((run) => run.facts.map(([name]) => name)))];
    const rows = runs.map((run) => ({ run: run.name, ...Object.fromEntries(run.facts.map(([name, ...fact]) => [name, fact])) }));
    const columns = names.map((name) => ({ key: name, label: name, text: (r) => r[name][0], order: (r) => r[name] && r[name][1] }));
    fill(byId("runs"), [{ key: "run", label: "run", className: "text", text: (r) => r.run }, ...columns], rows, null);
  }

  // ---- the page
  function choices(id, list, name, then) {
    const select = byId(id);
    list.forEach(([, label], i) => select.add(new Option(label, i)));
    if (list.length < 2) select.parentElement.hidden = true;
    select.onchange = () => { state[name] = list[select.value]; then(); };
  }

  document.body.classList.toggle("wide", several);
  document.querySelectorAll(several ? ".single" : ".several").forEach((one) => one.remove());
  if (!clustered) document.querySelectorAll(".clustered").forEach((one) => one.remove());
  const total = (key) => runs.reduce((sum, run) => sum + key(run.slices), 0);
  const drawn = total((slices) => slices.index.length), all = total((slices) => slices.total);
  if (drawn < all)
    byId("thinned").textContent = `${count(drawn)} of ${count(all)} slices are drawn${clustered ? ", all representatives among them" : ""}; the tables cover all.`;
  choices("height", HEIGHTS, "height", plotAll);
  choices("across", ACROSS, "across", plotAll);
  choices("colour", COLOURINGS, "colour", () => { legends(); runs.forEach((run) => run.plot.redraw(false)); });
  byId("logarithmic").onchange = (event) => { state.logarithmic = event.target.checked; plotAll(); };
  byId("everything").onclick = () => choose(state.chosen.run, state.chosen.kind, state.chosen.id);
  for (const run of runs) {
    run.canvas = document.createElement("canvas");
    run.inks = Object.fromEntries(Object.entries(run.ranks).map(([kind, ranks]) => [kind, new Map([...ranks].map(([id, rank]) => [id, inkOf(colourOf(rank))]))]));
    run.box = element("div", { className: "plot" });
    run.box.addEventListener("mouseleave", () => xp.showHover(run.plot, null));
    run.legend = element("div", { className: "legend" });
    const caption = several ? [element("figcaption", { textContent: run.name })] : [];
    byId("plots").append(element("figure", {}, ...caption, run.box, run.legend));
  }
  plotAll();
  legends();
  addEventListener("resize", () => runs.forEach((run) => run.plot.setSize({ width: run.box.clientWidth, height: HEIGHT })));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", plotAll);
  if (several) { overview(); kernelsOfSeveral(); } else kernelsOfOne(runs[0]);
  runs.forEach(details);
})();
