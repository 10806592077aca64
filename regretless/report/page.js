// Charts and tables of a regretless page. A chart is a <figure class="chart"> with its data as JSON inside:
//   {x: [{name, log, ticks}], y: [{name, log}],
//    series: [{name, kind: "line" | "steps" | "dots", dash, text,
//              x: [[...] per axis], y: [{mid, low, high} per quantity]}]}
// It draws one x axis and one quantity at a time; buttons choose which, toggle log scales and hide series.
"use strict";
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const FLOOR = 1e-300;
  const make = (tag, attributes = {}, parent = null, text = null) => {
    const node = tag.startsWith("svg:") ? document.createElementNS(SVG, tag.slice(4)) : document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== null) node.textContent = text;
    if (parent) parent.append(node);
    return node;
  };
  const raised = (k) => "10" + [...String(k)].map((c) => ({ "-": "⁻" })[c] ?? "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]).join("");
  const show = (v) => {
    if (v === 0 || v === null || !Number.isFinite(v)) return String(v);
    const a = Math.abs(v);
    return a >= 1e5 || a < 1e-3 ? v.toExponential(2).replace(/\.?0*e\+?/, "e") : String(Number(v.toPrecision(4)));
  };

  // Tick positions with labels between two ends, about `count` of them.
  function ticks(low, high, log, count) {
    if (log) {
      const a = Math.ceil(Math.log10(low) - 1e-9), b = Math.floor(Math.log10(high) + 1e-9), found = [];
      if (b - a >= 2) {
        const step = Math.max(1, Math.ceil((b - a) / count));
        for (let k = a; k <= b; k += step) found.push([10 ** k, k >= 0 && k <= 3 ? String(10 ** k) : raised(k)]);
        return found;
      }
      for (let k = a - 1; k <= b + 1; k++) {
        for (const m of b > a ? [1, 2, 5] : [1, 2, 3, 5]) {
          const v = m * 10 ** k;
          if (v >= low * 0.999 && v <= high * 1.001) found.push([v, show(v)]);
        }
      }
      if (found.length >= 2) return found;
    }
    const raw = (high - low) / count, size = 10 ** Math.floor(Math.log10(raw));
    const step = size * [1, 2, 5, 10].find((m) => m * size >= raw * 0.75), found = [];
    for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + step * 1e-9; v += step)
      found.push([v, show(Math.abs(v) < step * 1e-9 ? 0 : v)]);
    return found;
  }

  // A name keeps its colour from chart to chart, unless another series of the same chart has it; when all colours are
  // taken the next ones come dotted, then dash-dotted. What others published of a method (dashed, "method, authors")
  // has the method's colour.
  const COLOURS = 10, STROKES = ["", "2 3.5", "9 3 2 3"], PUBLISHED = "6 4", known = new Map();
  function looks(series) {
    const used = new Set(), own = new Map(), every = [...Array(COLOURS * STROKES.length).keys()];
    const twin = (s) => s.dash ? series.find((t) => !t.dash && s.name.startsWith(t.name + ",")) : undefined;
    for (const s of series.filter((t) => !twin(t))) {
      if (!known.has(s.name)) known.set(s.name, known.size % COLOURS);
      const wish = known.get(s.name), slot = used.has(wish) ? every.find((k) => !used.has(k)) ?? wish : wish;
      used.add(slot);
      own.set(s, slot);
    }
    return series.map((s) => {
      const slot = own.get(twin(s) ?? s);
      return { colour: `var(--c${slot % COLOURS})`, stroke: s.dash ? PUBLISHED : STROKES[Math.floor(slot / COLOURS)] };
    });
  }

  function chart(figure) {
    const data = JSON.parse(figure.querySelector("script").textContent);
    const state = { x: 0, y: 0, logX: false, logY: false, hidden: new Set() };
    const controls = make("div", { class: "controls" }, figure);
    const stage = make("div", {}, figure);
    const legend = make("div", { class: "legend" }, figure);
    const tip = make("div", { class: "tip", hidden: "" }, figure);
    const own = looks(data.series), look = (s) => own[data.series.indexOf(s)], colour = (s) => look(s).colour;
    const dashes = (s) => look(s).stroke ? { "stroke-dasharray": look(s).stroke } : {};
    let frame = null;

    // -- buttons
    const choose = (axis) => {
      const log = data[axis][state[axis]].log;
      state[axis === "x" ? "logX" : "logY"] = Boolean(log);
    };
    choose("x");
    choose("y");
    const press = () => {
      for (const b of controls.querySelectorAll("button")) b.setAttribute("aria-pressed", String(b.pressed()));
      for (const b of legend.querySelectorAll("button"))
        b.setAttribute("aria-pressed", String(!state.hidden.has(b.dataset.name)));
      draw();
    };
    const button = (parent, text, pressed, click) => {
      const b = make("button", { type: "button" }, parent, text);
      b.pressed = pressed;
      b.addEventListener("click", () => { click(); press(); });
      return b;
    };
    for (const [axis, word] of [["y", "show"], ["x", "against"]]) {
      if (data[axis].length < 2) continue;
      const group = make("span", {}, controls, word);
      data[axis].forEach((q, i) => {
        button(group, q.name, () => state[axis] === i, () => { state[axis] = i; choose(axis); });
      });
    }
    const scales = make("span", {}, controls);
    if (!data.x.every((axis) => axis.ticks))
      button(scales, "log x", () => state.logX, () => { state.logX = !state.logX; });
    button(scales, "log y", () => state.logY, () => { state.logY = !state.logY; });
    if (data.series.length > 1) {
      for (const s of data.series) {
        const toggle = () => { if (!state.hidden.delete(s.name)) state.hidden.add(s.name); };
        const b = button(legend, "", () => true, toggle);
        b.dataset.name = s.name;
        b.title = "click to hide or show, double-click to see it alone";
        const swatch = make("svg:svg", { viewBox: "0 0 26 4", "aria-hidden": "true" }, b);
        make("svg:line", { x1: 0, x2: 26, y1: 2, y2: 2, stroke: colour(s), "stroke-width": 3, ...dashes(s) }, swatch);
        b.append(s.name);
        b.addEventListener("dblclick", () => {
          const alone = data.series.every((o) => o === s || state.hidden.has(o.name));
          state.hidden = new Set(alone ? [] : data.series.filter((o) => o !== s).map((o) => o.name));
          press();
        });
      }
    }

    // -- drawing
    const visible = () => data.series.filter((s) => !state.hidden.has(s.name));
    function ends(values, log, margin) {
      const kept = values.filter((v) => v !== null && Number.isFinite(v) && (!log || v > FLOOR));
      if (!kept.length) return log ? [0.1, 1] : [0, 1];
      let low = kept.reduce((a, b) => Math.min(a, b)), high = kept.reduce((a, b) => Math.max(a, b));
      if (log) {
        if (high / low < 1.01) { low /= 2; high *= 2; }
        const pad = (high / low) ** margin;
        return [low / pad, high * pad];
      }
      if (high - low < 1e-12 * Math.max(1, Math.abs(high))) {
        const half = Math.abs(high) / 2 || 0.5;
        low -= half;
        high += half;
      }
      const pad = margin * (high - low);
      return [low - pad, high + pad];
    }

    function draw() {
      const shown = visible(), { x: xi, y: yi, logX, logY } = state;
      const width = Math.max(260, figure.clientWidth), height = Math.round(Math.min(420, Math.max(220, width * 0.55)));
      const box = { left: 62, right: width - 14, top: 10, bottom: height - 42 };
      const pool = shown.length ? shown : data.series;
      const [x0, x1] = ends(pool.flatMap((s) => s.x[xi]), logX, data.x[xi].margin ?? 0.01);
      const heights = pool.flatMap((s) => [...s.y[yi].mid, ...(s.y[yi].low ?? []), ...(s.y[yi].high ?? [])]);
      const [y0, y1] = ends(heights, logY, 0.04);
      const scale = (v, a, b, from, to, log) => {
        const share = log ? Math.log(v / a) / Math.log(b / a) : (v - a) / (b - a);
        return share * (to - from) + from;
      };
      const px = (v) => scale(v, x0, x1, box.left, box.right, logX);
      const py = (v) => scale(logY ? Math.max(v, y0) : v, y0, y1, box.bottom, box.top, logY);
      const ok = (x, y) => x !== null && y !== null && Number.isFinite(x) && Number.isFinite(y) && (!logX || x > 0);

      stage.replaceChildren();
      const caption = `${data.y[yi].name} against ${data.x[xi].name}`;
      const view = { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": caption };
      const svg = make("svg:svg", view, stage);
      for (const [v, label] of ticks(y0, y1, logY, 6)) {
        make("svg:line", { class: "grid", x1: box.left, x2: box.right, y1: py(v), y2: py(v) }, svg);
        make("svg:text", { x: box.left - 7, y: py(v) + 4, "text-anchor": "end" }, svg, label);
      }
      const fit = Math.max(2, Math.round((box.right - box.left) / 90));
      const every = (all) => Math.ceil(all.length / (fit * 1.6));
      const marks = data.x[xi].ticks?.filter((_, i, all) => i % every(all) === 0) ?? ticks(x0, x1, logX, fit);
      for (const [v, label] of marks) {
        make("svg:line", { class: "grid", x1: px(v), x2: px(v), y1: box.top, y2: box.bottom }, svg);
        make("svg:text", { x: px(v), y: box.bottom + 16, "text-anchor": "middle" }, svg, label);
      }
      make("svg:text", { x: (box.left + box.right) / 2, y: height - 6, "text-anchor": "middle" }, svg, data.x[xi].name);
      const middle = (box.top + box.bottom) / 2, turned = `rotate(-90 13 ${middle})`;
      make("svg:text", { x: 13, y: middle, "text-anchor": "middle", transform: turned }, svg, data.y[yi].name);
      const path = (xs, ys, steps) => {
        let text = "", pen = "M";
        xs.forEach((x, i) => {
          if (!ok(x, ys[i])) { pen = "M"; return; }
          if (steps && pen === "L") text += `H${px(x).toFixed(1)}`;
          text += `${pen}${px(x).toFixed(1)} ${py(ys[i]).toFixed(1)}`;
          pen = "L";
        });
        return text;
      };
      for (const s of shown) {
        const { mid, low, high } = s.y[yi], xs = s.x[xi];
        if (s.kind === "dots") {
          mid.forEach((v, i) => {
            if (!ok(xs[i], v)) return;
            const where = { cx: px(xs[i]).toFixed(1), cy: py(v).toFixed(1), r: 3.2 };
            make("svg:circle", { ...where, fill: colour(s), "fill-opacity": 0.65 }, svg);
          });
          continue;
        }
        if (low && high) {
          const keep = xs.map((_, i) => i).filter((i) => ok(xs[i], low[i]) && ok(xs[i], high[i]));
          const edge = (side) => (i) => `${px(xs[i]).toFixed(1)} ${py(side[i]).toFixed(1)}`;
          const d = `M${keep.map(edge(high)).join("L")}L${[...keep].reverse().map(edge(low)).join("L")}Z`;
          if (keep.length > 1) make("svg:path", { d, fill: colour(s), "fill-opacity": 0.13, class: "band" }, svg);
        }
        const pen = { stroke: colour(s), "stroke-width": 2, "stroke-linejoin": "round", ...dashes(s), fill: "none" };
        make("svg:path", { d: path(xs, mid, s.kind === "steps"), ...pen, class: "curve", "data-name": s.name }, svg);
      }
      const layer = make("svg:g", {}, svg);
      frame = { svg, layer, box, px, py, ok, width };
    }

    // -- hovering
    function hover(event) {
      if (!frame) return;
      const { svg, layer, box, px, py, ok, width } = frame, { x: xi, y: yi } = state;
      const where = svg.getBoundingClientRect(), zoom = width / where.width;
      const mx = (event.clientX - where.left) * zoom, my = (event.clientY - where.top) * zoom;
      layer.replaceChildren();
      if (mx < box.left - 8 || mx > box.right + 8 || my < 0 || my > box.bottom + 30) { tip.hidden = true; return; }
      const rows = [];
      let at = null, dot = null;
      for (const s of visible()) {
        const xs = s.x[xi], ys = s.y[yi].mid;
        let best = -1, distance = Infinity;
        for (let i = 0; i < xs.length; i++) {
          if (!ok(xs[i], ys[i])) continue;
          const d = s.kind === "dots" ? Math.hypot(px(xs[i]) - mx, py(ys[i]) - my) : Math.abs(px(xs[i]) - mx);
          if (d < distance) { distance = d; best = i; }
        }
        if (best < 0) continue;
        const low = s.y[yi].low?.[best], high = s.y[yi].high?.[best];
        const hit = { s, i: best, x: xs[best], y: ys[best], low, high, distance };
        if (s.kind === "dots") { if (distance < 24 && (!dot || distance < dot.distance)) dot = hit; }
        else { rows.push(hit); if (at === null || distance < at.distance) at = hit; }
      }
      tip.replaceChildren();
      if (dot) {
        make("b", {}, tip, data.series.length > 1 ? dot.s.name + "\n" : "");
        tip.append(dot.s.text?.[dot.i] ?? `${data.x[xi].name} ${show(dot.x)}\n${data.y[yi].name} ${show(dot.y)}`);
        const ring = { fill: "none", stroke: colour(dot.s), "stroke-width": 2 };
        make("svg:circle", { cx: px(dot.x), cy: py(dot.y), r: 6, ...ring }, layer);
      } else if (at) {
        make("svg:line", { class: "cross", x1: px(at.x), x2: px(at.x), y1: box.top, y2: box.bottom }, layer);
        make("b", {}, tip, `${data.x[xi].name} ${show(at.x)}\n`);
        rows.sort((a, b) => b.y - a.y).slice(0, 14).forEach((hit, k) => {
          if (k) tip.append("\n");
          make("span", { style: `color:${colour(hit.s)}` }, tip, "● ");
          const band = hit.low != null && hit.high != null ? ` (${show(hit.low)} to ${show(hit.high)})` : "";
          tip.append(`${hit.s.name}: ${show(hit.y)}${band}`);
          make("svg:circle", { cx: px(hit.x), cy: py(hit.y), r: 4, fill: colour(hit.s) }, layer);
        });
      }
      tip.hidden = !tip.childNodes.length;
      if (tip.hidden) return;
      const home = figure.getBoundingClientRect(), left = event.clientX - home.left, top = event.clientY - home.top;
      const beside = left + 14 + tip.offsetWidth > home.width ? left - tip.offsetWidth - 14 : left + 14;
      tip.style.left = `${Math.max(0, beside)}px`;
      tip.style.top = `${Math.max(0, top - tip.offsetHeight / 2)}px`;
    }
    stage.addEventListener("pointermove", hover);
    stage.addEventListener("pointerdown", hover);
    stage.addEventListener("pointerleave", () => { tip.hidden = true; frame?.layer.replaceChildren(); });
    let last = 0;
    new ResizeObserver(() => {
      if (figure.clientWidth === last) return;
      last = figure.clientWidth;
      draw();
    }).observe(figure);
    press();
  }

  // Tables sort by the column whose head is clicked; one without a head stays as it is.
  function sortable(table) {
    if (!table.tHead) return;
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      head.addEventListener("click", () => {
        const up = head.dataset.up !== "true", rows = [...table.tBodies[0].rows];
        head.dataset.up = String(up);
        const key = (row) => row.cells[column].dataset.v ?? row.cells[column].textContent;
        rows.sort((a, b) => {
          const u = key(a), v = key(b), n = u !== "" && v !== "" && !isNaN(u) && !isNaN(v);
          return (n ? u - v : String(u).localeCompare(String(v))) * (up ? 1 : -1);
        });
        table.tBodies[0].append(...rows);
      });
    });
  }

  const root = document.documentElement;
  const wish = matchMedia("(prefers-color-scheme: dark)");
  const dress = () => { root.dataset.theme = wish.matches ? "dark" : "light"; };
  dress();
  wish.addEventListener("change", dress);
  document.getElementById("theme").addEventListener("click", () => {
    root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
  });
  document.querySelectorAll("figure.chart").forEach(chart);
  document.querySelectorAll("table").forEach(sortable);
})();
