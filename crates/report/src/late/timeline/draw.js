// The drawing: rows from top to bottom, time from left to right.

const canvas = part("canvas"), context = canvas.getContext("2d");
const AXIS = 26, STRIP = 18, LANE = 17, HOLD = 4, MOST_LANES = 8;
/** With more wake-ups in view, only those of the thread that it is about are drawn. */
const MOST_WAKES = 80;

// --- Layout: rows from top to bottom, and where each thing lies in its row. ---

let view = { from: 0, to: 1 }, rows = [], width = 0, gutter = 0, height = 0;

function layout() {
  rows = [];
  let top = AXIS;
  const add = (row) => { rows.push({ ...row, top }); top += row.height; };
  if (now.parts.length > 0) add({ kind: "parts", label: "why it took so long", height: STRIP + 8, items: now.parts });
  for (const processor of now.processors) {
    const items = [...now.runs.filter((run) => run.processor === processor), ...now.lost.filter((lost) => lost.task === -1 - processor)];
    add({ kind: "processor", label: `CPU ${processor}`, height: STRIP, items });
  }
  const shown = part("everyone").checked ? now.rows : now.rows.slice(0, now.involved);
  for (const number of shown) add(threadRow(number));
  now.gpuRows.forEach((label, at) => add({ kind: "gpu", label, height: STRIP + 4, items: now.gpu.filter((work) => work.row === at) }));
  height = top + 4;
}

function threadRow(number) {
  const of = (list) => now[list].filter((item) => item.task === number);
  const [calls, waits, holds, states, lost] = ["calls", "waits", "holds", "states", "lost"].map(of);
  const boosts = of("boosts");
  const depth = [...calls, ...waits].reduce((most, item) => Math.max(most, item.depth + 1), 1);
  const lanes = holds.reduce((most, item) => Math.max(most, Math.min(item.lane + 1, MOST_LANES)), 0);
  const strip = data.tier === "preload" ? 0 : 7;
  const who = task(number);
  const row = { kind: "thread", task: number, label: who.name || "thread", sub: `${who.tid}`, depth, strip, items: [...states, ...calls, ...waits, ...holds, ...lost, ...boosts] };
  row.height = Math.max(34, 6 + strip + depth * LANE + (lanes ? 3 + lanes * HOLD : 0) + 6);
  return row;
}

/** Top and height of a thing, from the top of its row. */
function place(row, item) {
  const calls = 6 + (row.strip ?? 0);
  switch (item.list) {
    case "parts": return [3, STRIP];
    case "runs": return [2, STRIP - 4];
    case "gpu": return [2, STRIP];
    case "boosts": return [2, 11];
    case "states": return item.state === 3 ? [7, 2] : [5, 5];
    case "holds": return [calls + row.depth * LANE + 3 + (item.lane % MOST_LANES) * HOLD, HOLD - 1];
    case "lost": return row.kind === "processor" ? [2, STRIP - 4] : [calls, LANE - 2];
    default: return [calls + item.depth * LANE, LANE - 2];
  }
}

const x = (time) => gutter + (time - view.from) / (view.to - view.from) * (width - gutter);
const time = (at) => view.from + (at - gutter) / (width - gutter) * (view.to - view.from);
const visible = (item) => item.to >= view.from && item.from <= view.to;
const rowOf = (number) => rows.find((row) => row.task === number && row.kind === "thread");

function under(left, top) {
  if (left < gutter) return null;
  const row = rows.find((row) => top >= row.top && top < row.top + row.height);
  if (!row) return null;
  let best = null, most = 5; // So many pixels beside a narrow thing still mean it.
  for (const item of row.items) {
    if (!visible(item)) continue;
    const [above, high] = place(row, item), inside = top - row.top - above;
    if (inside < -1 || inside > high + 1) continue;
    const away = Math.max(x(item.from) - left, left - x(item.to), 0);
    if (away < most || (away === most && away === 0)) [best, most] = [item, away];
  }
  return best;
}

// --- Drawing. ---

let styles = {}, patterns = new Map(), selected = null, matches = null, waiting = false, pointer = null;

/** A variable of the page's style. */
function css(name) {
  return styles[name] ??= getComputedStyle(root).getPropertyValue(`--${name}`).trim() || "#888";
}

function hatch(name) {
  if (!patterns.has(name)) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 6;
    const pen = tile.getContext("2d");
    pen.fillStyle = pen.strokeStyle = css(name);
    pen.globalAlpha = 0.3;
    pen.fillRect(0, 0, 6, 6);
    pen.globalAlpha = 1;
    pen.lineWidth = 2;
    for (const shift of [-6, 0, 6]) { pen.moveTo(shift - 1, 7); pen.lineTo(shift + 7, -1); }
    pen.stroke();
    patterns.set(name, context.createPattern(tile, "repeat"));
  }
  return patterns.get(name);
}

function redraw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; draw(); });
}

function draw() {
  const scale = window.devicePixelRatio || 1;
  width = canvas.clientWidth;
  gutter = width < 640 ? 96 : 168;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.style.height = `${height}px`;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.textBaseline = "middle";
  fill("paper", 0, 0, width, height);
  drawTarget();
  rows.forEach(drawRow);
  context.save();
  context.beginPath();
  context.rect(gutter, 0, width - gutter, height);
  context.clip();
  drawArrows();
  drawSelected();
  if (pointer > gutter) fill("muted", pointer, AXIS, 1, height, 0.5);
  context.restore();
  drawAxis();
  Object.assign(canvas.dataset, { from: Math.round(view.from), to: Math.round(view.to), rows: rows.length });
  if (part("as-text").open) fillTable();
}

function fill(name, left, top, wide, high, alpha = 1) {
  context.globalAlpha = alpha;
  context.fillStyle = css(name);
  context.fillRect(left, top, wide, high);
  context.globalAlpha = 1;
}

function text(words, left, middle, name, size, most, bold) {
  context.font = `${bold ? 620 : 400} ${size}px ${css("sans")}`;
  if (most !== undefined && context.measureText(words).width > most) {
    while (words.length > 1 && context.measureText(`${words}…`).width > most) words = words.slice(0, -1);
    if (words.length < 2) return;
    words += "…";
  }
  context.fillStyle = css(name);
  context.fillText(words, left, middle);
}

/** The time of the call, behind everything. */
function drawTarget() {
  const [left, right] = [x(callBegin()), x(callBegin() + now.call[1])].map((at) => Math.min(Math.max(at, gutter), width));
  fill("series-0", left, AXIS, Math.max(right - left, 1), height, 0.06);
}

function drawRow(row) {
  fill("grid", 0, row.top + row.height - 1, width, 1);
  context.save();
  context.beginPath();
  context.rect(gutter, row.top, width - gutter, row.height);
  context.clip();
  const last = {};
  for (const item of row.items) if (visible(item)) drawItem(row, item, last);
  context.restore();
  fill("paper", 0, row.top, gutter - 1, row.height - 1);
  fill("grid", gutter - 1, row.top, 1, row.height);
  if (row.task === now.task && row.kind === "thread") fill("series-0", 0, row.top, 4, row.height - 1);
  const middle = row.kind === "thread" ? row.top + 16 : row.top + row.height / 2;
  text(row.label, 12, middle, row.kind === "thread" ? "text" : "muted", 12.5, gutter - 20, row.kind === "thread");
  if (row.sub && row.height >= 34) text(row.sub, 12, middle + 14, "muted", 11, gutter - 20);
}

function drawItem(row, item, last) {
  const [top, high] = place(row, item);
  const left = Math.max(x(item.from), gutter - 2), right = Math.min(x(item.to), width + 2);
  const wide = Math.max(right - left, item.list === "boosts" ? 3 : 1);
  // What is narrower than a pixel is drawn once for each pixel.
  const lane = `${item.list} ${top}`, pixel = Math.floor(left);
  if (wide <= 1 && last[lane] === pixel && item !== selected) return;
  last[lane] = pixel;
  const dim = matches && !matches.has(item) ? 0.18 : 1, at = row.top + top;
  context.globalAlpha = dim;
  const [ink, style] = look(item);
  if (style === "hatch") context.fillStyle = hatch(ink);
  else { context.fillStyle = css(ink); context.globalAlpha = dim * style; }
  context.fillRect(left, at, wide, high);
  context.globalAlpha = dim;
  if (wide > 2 && (item.list === "calls" || item.list === "waits")) {
    context.strokeStyle = css(item.list === "calls" ? "text" : ink);
    context.lineWidth = item.flags & TARGET ? 2 : 1;
    context.globalAlpha = dim * (item.flags & TARGET ? 0.9 : 0.35);
    context.strokeRect(left + 0.5, at + 0.5, wide - 1, high - 1);
    context.globalAlpha = dim;
  }
  const words = label(item);
  if (words && wide > 26) {
    if (style === "hatch") plate(words, left + 4, at, wide - 8, high);
    text(words, left + 5, at + high / 2 + 0.5, item.list === "parts" && ink !== "grid" ? "paper" : "text", 11.5, wide - 9);
  }
  context.globalAlpha = 1;
}

/** Paper behind words on a hatched ground. */
function plate(words, left, top, wide, high) {
  context.font = `400 11.5px ${css("sans")}`;
  const alpha = context.globalAlpha;
  fill("paper", left - 1, top + 1, Math.min(context.measureText(words).width + 4, wide + 2), high - 2, alpha * 0.82);
  context.globalAlpha = alpha;
}

/** Colour of a thing, and how strong, or `hatch`. */
function look(item) {
  switch (item.list) {
    case "waits": return [now.inks.get(item.lock), "hatch"];
    case "holds": return now.inks.has(item.lock) ? [now.inks.get(item.lock), 1] : ["muted", 0.45];
    case "states": return [STATE_INKS[item.state], 1];
    case "parts": return [data.causes[item.cause][1], 0.92];
    case "lost": return ["limit", "hatch"];
    case "gpu": return ["series-2", 0.35];
    case "boosts": return ["series-3", 1];
    case "runs":
      if (item.task < 0) return ["muted", 0.3];
      if (task(item.task).tid === 0) return ["paper", 0];
      if (item.task === now.task) return ["series-0", 0.75];
      return task(item.task).own ? ["series-0", 0.28] : ["muted", 0.28];
    default: return ["text", item.flags & TARGET ? 0.2 : 0.09];
  }
}

function label(item) {
  switch (item.list) {
    case "calls": case "gpu": return data.texts[item.name];
    case "waits": return `waits for ${data.locks[item.lock][0]}`;
    case "runs": return item.task < 0 ? "several" : task(item.task).tid ? task(item.task).name || `${task(item.task).tid}` : "";
    case "parts": return data.texts[item.text];
    case "lost": return "records lost";
    default: return "";
  }
}

/** Of arrows between the same rows, those too close to be told apart are one. */
function drawArrows() {
  const last = new Map();
  const apart = (from, to, at) => {
    const key = `${from} ${to}`, far = !(Math.abs(last.get(key) - at) < 5);
    if (far) last.set(key, at);
    return far;
  };
  for (const arrow of now.arrows) {
    if (arrow.to < view.from || arrow.from > view.to) continue;
    const from = rowOf(arrow.giver), to = rowOf(arrow.taker);
    if (from && to && apart(arrow.giver, arrow.taker, x(arrow.to))) curve(x(arrow.from), from, x(arrow.to), to, now.inks.get(arrow.lock) ?? "muted", 1.6);
  }
  if (!part("wakes").checked) return;
  const wakes = now.wakes.filter((wake) => wake.at >= view.from && wake.at <= view.to && rowOf(wake.wakee));
  for (const wake of wakes.length > MOST_WAKES ? wakes.filter((wake) => wake.wakee === now.task) : wakes) {
    const from = rowOf(wake.waker), to = rowOf(wake.wakee), at = x(wake.at);
    if (!apart(wake.waker, -wake.wakee, at)) continue;
    if (from && from !== to) curve(at, from, at, to, "series-4", 1);
    else head(at, to.top + 4, 1, "series-4");
  }
}

function curve(left, from, right, to, name, thick) {
  const down = to.top > from.top;
  const top = from.top + (down ? 7 + from.strip : 5), bottom = to.top + (down ? 4 : 8 + to.strip);
  context.strokeStyle = css(name);
  context.lineWidth = thick;
  context.globalAlpha = 0.75;
  context.beginPath();
  context.moveTo(left, top);
  context.bezierCurveTo(left, (top + bottom) / 2, right, (top + bottom) / 2, right, bottom);
  context.stroke();
  head(right, bottom, down ? 1 : -1, name);
  context.globalAlpha = 1;
}

function head(at, bottom, way, name) {
  context.fillStyle = css(name);
  context.beginPath();
  context.moveTo(at, bottom + way * 2);
  context.lineTo(at - 3.5, bottom - way * 4);
  context.lineTo(at + 3.5, bottom - way * 4);
  context.fill();
}

function drawSelected() {
  const row = selected && rows.find((row) => row.items.includes(selected));
  if (!row) return;
  const [top, high] = place(row, selected), left = x(selected.from), right = x(selected.to);
  context.strokeStyle = css("series-0");
  context.lineWidth = 2.5;
  context.strokeRect(left - 1.5, row.top + top - 1.5, Math.max(right - left, 1) + 3, high + 3);
}

function drawAxis() {
  fill("paper", 0, 0, width, AXIS);
  fill("edge", 0, AXIS - 1, width, 1);
  text("from its begin", 12, AXIS / 2, "muted", 11.5, gutter - 16);
  const rough = (view.to - view.from) / Math.max((width - gutter) / 110, 1), power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * power).find((step) => step >= rough);
  for (let at = Math.ceil((view.from - callBegin()) / step) * step; at + callBegin() <= view.to; at += step) {
    const left = x(at + callBegin());
    fill("edge", left, AXIS - 6, 1, 5);
    if (left < width - 50 && !(Math.abs(left - pointer) < 70)) text(at === 0 ? "0" : short(at), left + 4, AXIS / 2 - 1, at === 0 ? "text" : "muted", 11.5, undefined, at === 0);
  }
  if (pointer > gutter) text(short(Math.round(time(pointer) - callBegin())), Math.min(pointer - 20, width - 60), AXIS / 2 - 1, "series-0", 11.5, undefined, true);
}
