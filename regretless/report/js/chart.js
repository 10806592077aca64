// A chart is a <figure class="chart"> with its data as JSON inside:
//   {x: [{name, log, whole, ticks, low, high, at}], y: [{name, log, cut}],
//    series: [{name, kind: "line" | "steps" | "dots" | "bars" | "band", dash, text, order, best, failed, some,
//              only, faded, x: [[...] per axis], y: [{mid, low, high} per quantity]}],
//    first: [names of the series that are drawn until others are asked for]}
// Instead of an array there may be the name of a column of the page's trials. It draws one x axis and one quantity at a
// time; buttons choose which, toggle log scales and hide series. `only` names the trials that a series of dots shows,
// "front" or their positions. `cut` is [low, high], either null: what lies beyond is drawn at the edge until the button
// "all values" is pressed. `at` is marked on the x axis.

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

// The ends of an axis that shows these values, with a margin on both sides.
function ends(values, log, margin) {
  const kept = values.filter((v) => isNumber(v) && (!log || v > FLOOR));
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

// What belongs to one chart, or to all charts of a group that shares its buttons: the first of them makes these.
function groupOf(figure) {
  const fresh = () => ({
    state: { x: 0, y: 0, logY: false, whole: false, hidden: new Set() },
    controls: make("div", { class: "controls" }), legend: make("div", { class: "legend" }), first: true,
  });
  const group = figure.closest(".shared");
  if (!group) {
    const own = fresh();
    figure.append(own.controls);
    return own;
  }
  if (group.common) return { ...group.common, first: false };
  group.common = { ...fresh(), members: [] };
  group.before(group.common.controls, group.common.legend);
  return group.common;
}

const SHADES = 24; // colours between the first and the last trial
const TALLEST = 0.5; // a certificate's bounds lengthen an axis by at most this share of what the values need

function chart(figure) {
  const data = JSON.parse(figure.querySelector("script").textContent);
  for (const s of data.series) {
    s.x = s.x.map(column);
    s.y = s.y.map((parts) => Object.fromEntries(Object.entries(parts).map(([part, v]) => [part, column(v)])));
  }
  const { state, controls, legend, members, first } = groupOf(figure);
  const stage = make("div", { class: "stage", tabindex: 0, role: "img" }, figure);
  if (!members) figure.append(legend);
  let logX = Boolean(data.x[0].log);
  const rest = data.first ? data.series.map((s) => s.name).filter((name) => !data.first.includes(name)) : [];
  if (first) state.hidden = new Set(rest);
  const { tip, put, say } = hintOf(figure);
  const own = looks(data.series), look = (s) => own[data.series.indexOf(s)], colour = (s) => look(s).colour;
  const dashes = (s) => look(s).stroke ? { "stroke-dasharray": look(s).stroke } : {};
  let frame = null, redraw = () => {};

  // -- buttons
  const choose = (axis) => {
    const log = Boolean(data[axis][state[axis]].log);
    if (axis === "x") logX = log; else state.logY = log;
  };
  choose("x");
  choose("y");
  const press = () => {
    for (const b of controls.querySelectorAll("button")) b.setAttribute("aria-pressed", String(b.pressed()));
    for (const b of legend.querySelectorAll("button"))
      b.setAttribute("aria-pressed", String(!state.hidden.has(b.dataset.name)));
    for (const again of members ?? [redraw]) again();
  };
  const button = (parent, text, pressed, click) => {
    const b = make("button", { type: "button" }, parent, text);
    b.pressed = pressed;
    b.addEventListener("click", () => { click(); press(); });
    return b;
  };
  for (const [axis, word] of [["y", "show"], ["x", "against"]]) {
    if (data[axis].length < 2 || !first) continue;
    const group = make("span", {}, controls, word);
    data[axis].forEach((q, i) => {
      button(group, q.name, () => state[axis] === i, () => { state[axis] = i; choose(axis); });
    });
  }
  const scales = first ? make("span", {}, controls) : null;
  if (!data.x.every((axis) => axis.ticks) && !members) button(scales, "log x", () => logX, () => { logX = !logX; });
  if (first) button(scales, "log y", () => state.logY, () => { state.logY = !state.logY; });
  if (first && data.y.some((q) => q.cut))
    button(scales, "all values", () => state.whole, () => { state.whole = !state.whole; });
  if (rest.length && first)
    button(scales, `all ${data.series.length} lines`, () => !state.hidden.size,
      () => { state.hidden = new Set(state.hidden.size ? [] : rest); });
  if (data.series.length > 1 && first) {
    for (const s of data.series) {
      const toggle = () => { if (!state.hidden.delete(s.name)) state.hidden.add(s.name); };
      const b = button(legend, "", () => true, toggle);
      b.dataset.name = s.name;
      b.title = "click to hide or show, double-click to see it alone";
      if (s.order) make("span", { class: "order", "aria-hidden": "true" }, b);
      else {
        const swatch = make("svg:svg", { viewBox: "0 0 26 4", "aria-hidden": "true" }, b);
        make("svg:line", { x1: 0, x2: 26, y1: 2, y2: 2, stroke: colour(s), "stroke-width": 3, ...dashes(s) }, swatch);
      }
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
  const parted = (s, yi) => [...(s.y[yi].mid ?? []), ...(s.y[yi].low ?? []), ...(s.y[yi].high ?? [])];
  function heights(pool, yi, logY) {
    const [least, most] = !state.whole && data.y[yi].cut || [null, null];
    const kept = (v) => (least === null || v >= least) && (most === null || v <= most);
    const firm = pool.filter((s) => s.kind !== "band");
    let [y0, y1] = ends((firm.length ? firm : pool).flatMap((s) => parted(s, yi)).filter(kept), logY, 0.04);
    for (const v of firm.length ? pool.filter((s) => s.kind === "band").flatMap((s) => parted(s, yi)) : []) {
      if (!isNumber(v) || (logY && v <= FLOOR)) continue;
      const share = scaled(v, y0, y1, 0, 1, logY);
      if (share < 0 && share > -TALLEST) y0 = v;
      if (share > 1 && share < 1 + TALLEST) y1 = v;
    }
    return [y0, y1];
  }

  function draw() {
    const shown = visible(), { x: xi, y: yi, logY } = state, axis = data.x[xi];
    const width = Math.max(260, figure.clientWidth), height = Math.round(Math.min(420, Math.max(220, width * 0.55)));
    const pool = shown.length ? shown : data.series, fixed = isNumber(axis.low) && (!logX || axis.low > FLOOR);
    const [x0, x1] = fixed ? [axis.low, axis.high]
      : ends(pool.flatMap((s) => s.x[xi]), logX, axis.margin ?? 0.01);
    const [y0, y1] = heights(pool, yi, logY), ys = ticks(y0, y1, logY, 6);
    const box = { left: besideLabels(ys), right: width - 14, top: 10, bottom: height - 42 };
    const px = (v) => scaled(v, x0, x1, box.left, box.right, logX);
    const py = (v) => scaled(logY ? Math.max(v, y0) : v, y0, y1, box.bottom, box.top, logY);
    const ok = (x, y) => isNumber(x) && isNumber(y) && (!logX || x > 0);

    stage.replaceChildren();
    stage.setAttribute("aria-label", `${data.y[yi].name} against ${axis.name}; arrow keys move along the points`);
    const pen = pool.some((s) => s.kind === "dots") ? canvasOf(stage, width, height) : null;
    const svg = make("svg:svg", { viewBox: `0 0 ${width} ${height}`, height, "aria-hidden": "true" }, stage);
    const fit = Math.max(2, Math.round((box.right - box.left) / 90));
    const names = { xName: axis.name, yName: data.y[yi].name };
    const whole = axis.whole ?? pool.every((s) => s.x[xi].every((v) => v === null || Number.isInteger(v)));
    const marks = { xs: axis.ticks ?? ticks(x0, x1, logX, fit, whole), ys };
    axesOf(svg, box, height, { ...marks, px, py, ...names });
    const inner = [box.left, box.top, box.right - box.left, box.bottom - box.top], [x, y, wide, tall] = inner;
    const plot = make("svg:svg", { x, y, width: wide, height: tall, viewBox: inner.join(" ") }, svg); // it clips
    if (isNumber(axis.at)) {
      const at = px(axis.at), place = { x1: at, x2: at, y1: box.top, y2: box.bottom };
      const line = make("svg:line", { class: "at", ...place }, plot);
      make("svg:title", {}, line, "the recommended setting");
    }
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
    let count = 0;
    for (const s of shown) {
      const { mid, low, high } = s.y[yi], xs = s.x[xi], ink = colour(s);
      if (s.kind === "dots") {
        count += dots(pen, s, xs, mid, { px, py, ok, box, y0, y1 }, styled(ink.slice(4, -1)));
        if (s.best != null && ok(xs[s.best], mid[s.best])) {
          const ring = make("svg:circle", { class: "best", cx: px(xs[s.best]), cy: py(mid[s.best]), r: 6 }, svg);
          make("svg:title", {}, ring, trials?.objectives ? "the compromise" : "the best trial");
        }
        for (const x of column(s.failed ?? [])) {
          const d = `M${px(x) - 3} ${box.bottom - 9}l6 6m0 -6l-6 6`;
          if (isNumber(x)) make("svg:path", { class: "failed", d }, plot);
        }
        continue;
      }
      if (s.kind === "bars") {
        xs.forEach((x, i) => {
          const stem = { x1: px(x), x2: px(x), y1: py(low[i]), y2: py(high[i]), stroke: ink };
          make("svg:line", { ...stem, "stroke-width": 12, "stroke-opacity": 0.18 }, plot);
          const middle = { x1: px(x) - 9, x2: px(x) + 9, y1: py(mid[i]), y2: py(mid[i]), stroke: ink };
          make("svg:line", { ...middle, "stroke-width": 3 }, plot);
        });
        continue;
      }
      if (low && high) {
        const keep = xs.map((_, i) => i).filter((i) => ok(xs[i], low[i]) && ok(xs[i], high[i]));
        const spot = (x, y) => `${px(x).toFixed(1)} ${py(y).toFixed(1)}`, held = s.kind === "band"; // bounds hold until the next
        const edge = (side) => keep.flatMap((i, k) =>
          [...(held && k ? [spot(xs[i], side[keep[k - 1]])] : []), spot(xs[i], side[i])]);
        const d = `M${edge(high).join("L")}L${edge(low).reverse().join("L")}Z`;
        if (keep.length > 1) make("svg:path", { d, fill: ink, "fill-opacity": 0.13, class: "band" }, plot);
      }
      const strokes = { stroke: ink, "stroke-width": 2, "stroke-linejoin": "round", ...dashes(s), fill: "none" };
      const lines = s.kind === "band" ? [low, high] : [mid];
      for (const line of lines) {
        const d = path(xs, line, s.kind !== "line");
        make("svg:path", { d, ...strokes, class: "curve", "data-name": s.name }, plot);
      }
    }
    stage.dataset.dots = String(count);
    const layer = make("svg:g", {}, svg);
    frame = { svg, layer, box, px, py, ok, width };
  }

  const only = (s) => s.only === "front" ? trials.front : s.only; // positions of the trials that a series shows

  // Dots of one series, as circles, or as triangles at the edge they lie beyond; returns how many.
  function dots(pen, s, xs, ys, { px, py, ok, box, y0, y1 }, plain) {
    const [early, late] = [styled("--early"), styled("--late")], shades = new Map();
    const drawn = only(s) ?? (s.some && trials.some ? trials.some : xs.map((_, i) => i));
    drawn.forEach((i) => {
      if (!ok(xs[i], ys[i])) return;
      const shade = s.order ? Math.min(SHADES - 1, Math.floor(i / xs.length * SHADES)) : 0;
      if (!shades.has(shade)) shades.set(shade, []);
      shades.get(shade).push(i);
    });
    const radius = drawn.length < HEAVY ? 3.2 : 2, { low, high } = s.y[state.y];
    let count = 0;
    if (low && high) { // error bars
      pen.strokeStyle = styled("--late");
      pen.globalAlpha = 0.45;
      pen.lineWidth = 1.2;
      pen.beginPath();
      for (const i of drawn.filter((i) => ok(xs[i], low[i]) && isNumber(high[i]) && low[i] <= y1 && high[i] >= y0)) {
        pen.moveTo(px(xs[i]), py(Math.max(low[i], y0)));
        pen.lineTo(px(xs[i]), py(Math.min(high[i], y1)));
      }
      pen.stroke();
    }
    for (const [shade, members] of [...shades].sort((a, b) => a[0] - b[0])) {
      pen.fillStyle = s.order ? mixed(early, late, shade / (SHADES - 1)) : plain;
      pen.globalAlpha = s.order ? 0.85 : s.faded ? 0.28 : only(s) ? 1 : 0.65;
      pen.strokeStyle = pen.fillStyle;
      pen.lineWidth = 1.5;
      for (const hollow of [false, true]) { // those that break a constraint are hollow
        pen.beginPath();
        for (const i of members.filter((i) => hollow === (Boolean(s.trials) && broken.has(i)))) {
          const x = px(xs[i]), beyond = ys[i] > y1 ? 1 : ys[i] < y0 ? -1 : 0;
          count++;
          if (!beyond) {
            const y = py(ys[i]);
            pen.moveTo(x + radius, y);
            pen.arc(x, y, radius, 0, 7);
          } else {
            const y = beyond > 0 ? box.top + 2 : box.bottom - 2;
            pen.moveTo(x, y);
            pen.lineTo(x - 4, y + 7 * beyond);
            pen.lineTo(x + 4, y + 7 * beyond);
          }
        }
        if (hollow) pen.stroke(); else pen.fill();
      }
    }
    return count;
  }

  // -- hovering, and the same by keys
  function point(clientX, clientY) {
    if (!frame) return;
    const { svg, layer, box, px, py, ok, width } = frame, { x: xi, y: yi } = state;
    const where = svg.getBoundingClientRect(), zoom = width / where.width;
    const mx = (clientX - where.left) * zoom, my = (clientY - where.top) * zoom;
    const inside = (y) => Math.min(Math.max(py(y), box.top), box.bottom);
    layer.replaceChildren();
    if (mx < box.left - 8 || mx > box.right + 8 || my < 0 || my > box.bottom + 30) { tip.hidden = true; return; }
    const rows = [];
    let at = null, dot = null;
    for (const s of visible()) {
      const xs = s.x[xi], ys = s.y[yi].mid ?? s.y[yi].high;
      let best = -1, distance = Infinity;
      const own = only(s) && new Set(only(s));
      for (let i = 0; i < xs.length; i++) {
        if (!ok(xs[i], ys[i]) || (own && !own.has(i))) continue;
        const d = s.kind === "dots" ? Math.hypot(px(xs[i]) - mx, inside(ys[i]) - my) : Math.abs(px(xs[i]) - mx);
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
      if (!dot.s.trials) make("b", {}, tip, data.series.length > 1 ? dot.s.name + "\n" : "");
      const plain = `${data.x[xi].name} ${show(dot.x)}\n${data.y[yi].name} ${show(dot.y)}`;
      tip.append(dot.s.trials ? trialWords(dot.i) : dot.s.text?.[dot.i] ?? plain);
      const ring = { fill: "none", stroke: colour(dot.s), "stroke-width": 2 };
      make("svg:circle", { cx: px(dot.x), cy: inside(dot.y), r: 6, ...ring }, layer);
      if (dot.s.trials) lookAt(dot.i, layer);
    } else if (at) {
      make("svg:line", { class: "cross", x1: px(at.x), x2: px(at.x), y1: box.top, y2: box.bottom }, layer);
      const label = data.x[xi].ticks?.find((t) => t[0] === at.x)?.[1];
      make("b", {}, tip, `${data.x[xi].name} ${label ?? show(at.x)}\n`);
      rows.sort((a, b) => b.y - a.y).slice(0, 14).forEach((hit, k) => {
        if (k) tip.append("\n");
        make("span", { style: `color:${colour(hit.s)}` }, tip, "● ");
        const middle = hit.s.kind === "band" ? "" : show(hit.y);
        const band = hit.low != null && hit.high != null ? ` (${show(hit.low)} to ${show(hit.high)})` : "";
        tip.append(`${hit.s.name}: ${middle}${band}`);
        make("svg:circle", { cx: px(hit.x), cy: inside(hit.y), r: 4, fill: colour(hit.s) }, layer);
      });
    }
    put(clientX, clientY);
  }
  const leave = () => { tip.hidden = true; frame?.layer.replaceChildren(); lookAt(null); };
  if (data.series.some((s) => s.only)) {
    lookers.push((i, from) => {
      if (!frame || from === frame.layer) return;
      frame.layer.replaceChildren();
      const s = data.series.find((t) => t.trials), x = i === null ? null : s.x[state.x][i];
      const y = i === null ? null : s.y[state.y].mid[i];
      if (!frame.ok(x, y)) return;
      const at = Math.min(Math.max(frame.py(y), frame.box.top), frame.box.bottom);
      make("svg:circle", { class: "chosen", cx: frame.px(x), cy: at, r: 7 }, frame.layer);
    });
  }
  stage.addEventListener("pointermove", (e) => point(e.clientX, e.clientY));
  stage.addEventListener("pointerdown", (e) => point(e.clientX, e.clientY));
  stage.addEventListener("pointerleave", leave);
  stage.addEventListener("blur", leave);
  let cursor = -1;
  stage.addEventListener("keydown", (e) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key], s = visible()[0];
    if (!step || !frame || !s) return;
    e.preventDefault();
    const xs = s.x[state.x], ys = s.y[state.y].mid ?? s.y[state.y].high, n = xs.length;
    const every = only(s) ?? xs.map((_, i) => i);
    const order = every.filter((i) => frame.ok(xs[i], ys[i])).sort((a, b) => xs[a] - xs[b]);
    if (!n || !order.length) return;
    cursor = Math.min(Math.max(cursor + step, 0), order.length - 1);
    const i = order[cursor], home = frame.svg.getBoundingClientRect(), zoom = home.width / frame.width;
    const y = Math.min(Math.max(frame.py(ys[i]), frame.box.top), frame.box.bottom);
    point(home.left + frame.px(xs[i]) * zoom, home.top + y * zoom);
    say(tip.textContent);
  });
  const size = data.series.reduce((n, s) => n + s.x[0].length, 0);
  redraw = drawn(figure, draw, size > HEAVY);
  members?.push(redraw);
  if (first) press();
}
