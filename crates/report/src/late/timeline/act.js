// What can be done with the timeline: select, follow a wait, search, move.

const tip = part("tip"), detail = part("detail");
const MOST_ROWS = 300; // Of the table.

// --- Selecting. ---

function show(into, item, buttons) {
  into.replaceChildren(...describe(item).filter(Boolean).map((line, at) => {
    const p = document.createElement("p");
    p.append(at === 0 ? Object.assign(document.createElement("b"), { textContent: line }) : line);
    return p;
  }));
  if (!buttons) return;
  const button = (words, action) => {
    const made = Object.assign(document.createElement("button"), { type: "button", textContent: words });
    made.addEventListener("click", action);
    into.append(made);
  };
  button("Zoom to it", () => lookAt(item.from - item.duration * 0.1 - 100, item.to + item.duration * 0.1 + 100));
  if (item.list === "waits" && holderOf(item, item.from)) button("Go to the holder", () => jump(item, item.from));
}

function fillTable() {
  const items = rows.flatMap((row) => row.items.filter((item) => visible(item) && item.list !== "states" && item.list !== "runs"));
  items.sort((one, other) => one.from - other.from);
  const cells = (item) => {
    const [name, , ...more] = describe(item);
    const who = item.list === "gpu" ? now.gpuRows[item.row] : item.task >= 0 ? task(item.task).text : item.list === "parts" ? task(now.task).text : `CPU ${-1 - item.task}`;
    return [short(item.from - callBegin()), item.list === "boosts" ? "" : short(item.duration), who, [name, ...more].filter(Boolean).join("; ")];
  };
  part("table").replaceChildren(...items.slice(0, MOST_ROWS).map((item) => {
    const line = document.createElement("tr");
    cells(item).forEach((words, at) => line.append(Object.assign(document.createElement("td"), { textContent: words, className: at === 1 ? "" : "left" })));
    return line;
  }));
  part("more").textContent = items.length > MOST_ROWS ? `and ${items.length - MOST_ROWS} more: zoom in to see them` : "";
}

// --- Searching. ---

const KINDS = { calls: "calls", waits: "waits", holds: "locks held", runs: "times on a processor", parts: "parts of the call", gpu: "works of the GPU", lost: "losses" };

/** Whether the text that is looked for is in one of the names of a thing. */
function named(item, wanted) {
  const has = (...texts) => texts.some((found) => found && found.toLowerCase().includes(wanted));
  const thread = item.task >= 0 && task(item.task).tid !== 0 ? task(item.task) : null;
  switch (item.list) {
    case "calls": return has(data.texts[item.name], data.texts[item.note], thread.text);
    case "waits": case "holds": return has(lockText(item.lock), thread.text);
    case "states": return has(STATES[item.state], thread.text);
    case "runs": return has(thread?.text, thread?.process);
    case "parts": return has(data.texts[item.text], data.causes[item.cause][0]);
    case "gpu": return has(data.texts[item.name]);
    case "boosts": return has("priority", thread.text);
    default: return has("records lost", thread?.text);
  }
}

function search(words) {
  const wanted = words.trim().toLowerCase();
  matches = wanted ? new Set(rows.flatMap((row) => row.items.filter((item) => named(item, wanted)))) : null;
  const found = Object.entries(KINDS).map(([list, name]) => {
    const times = [...matches ?? []].filter((item) => item.list === list).map((item) => item.duration);
    const sum = times.reduce((sum, time) => sum + time, 0), longest = times.reduce((most, time) => Math.max(most, time), 0);
    return times.length ? `${times.length} ${name}: ${short(sum)}, longest ${short(longest)}` : "";
  });
  part("found").textContent = wanted ? found.filter(Boolean).join("; ") || "nothing found" : "";
  redraw();
}

function nextMatch(step) {
  if (!matches) return;
  const items = [...matches].filter((item) => item.list !== "states").sort((one, other) => one.from - other.from);
  const at = items.indexOf(selected);
  if (items.length) select(items[(at + step + items.length + (at < 0 && step < 0 ? 1 : 0)) % items.length], true);
}

// --- Moving. ---

const history = [];

function lookAt(from, to) {
  const length = Math.min(Math.max(to - from, 200), now.length), begin = Math.min(Math.max(from, 0), now.length - length);
  view = { from: begin, to: begin + length };
  redraw();
}

const zoom = (factor, around = (view.from + view.to) / 2) => lookAt(around - (around - view.from) * factor, around + (view.to - around) * factor);
const move = (share) => lookAt(view.from + share * (view.to - view.from), view.to + share * (view.to - view.from));
const showCall = () => lookAt(callBegin() - now.call[1] * 0.15, callBegin() + now.call[1] * 1.15);

function select(item, reveal) {
  selected = item;
  if (item) {
    show(detail, item, true);
    if (reveal) bring(item);
  } else detail.replaceChildren();
  redraw();
}

/** Moves so that something can be seen. */
function bring(item) {
  if (item.task >= 0 && item.list !== "runs" && !rowOf(item.task)) { part("everyone").checked = true; layout(); }
  const length = view.to - view.from, inside = item.to > view.from + length * 0.02 && item.from < view.to - length * 0.02;
  if (item.duration > length) lookAt(item.from - item.duration * 0.05, item.to + item.duration * 0.05);
  else if (!inside || item.duration / length < 0.002) {
    const wanted = Math.min(length, Math.max(item.duration * 20, 1000)), middle = (item.from + item.to) / 2;
    lookAt(middle - wanted / 2, middle + wanted / 2);
  }
  const row = rows.find((row) => row.items.includes(item)), box = canvas.getBoundingClientRect();
  if (!row) return;
  const [top, bottom] = [box.top + row.top, box.top + row.top + row.height];
  if (top < 0) window.scrollBy(0, top - 60);
  else if (bottom > window.innerHeight) window.scrollBy(0, bottom - window.innerHeight + 60);
}

/** From a wait to the call of whoever had the lock. */
function jump(wait, at) {
  const holder = holderOf(wait, at);
  const target = holder && (callAt(holder.task, holder.at) ?? holder.hold);
  if (!target) return select(wait, false);
  history.push({ view, selected: wait });
  root.querySelector('[data-do="back"]').disabled = false;
  select(target, true);
}

function back() {
  const before = history.pop();
  root.querySelector('[data-do="back"]').disabled = history.length === 0;
  if (before) { lookAt(before.view.from, before.view.to); select(before.selected, false); }
}

/** Selects something in the next row, or the next thing in the row. */
function step(rowStep, itemStep) {
  const at = selected ? rows.findIndex((row) => row.items.includes(selected)) : -1;
  const items = (row) => row.items.filter((item) => item.list !== "states").sort((one, other) => one.from - other.from || one.depth - other.depth);
  if (itemStep && at >= 0) {
    const all = items(rows[at]), next = all[all.indexOf(selected) + itemStep];
    if (next) select(next, true);
    return;
  }
  const middle = selected ? Math.max(selected.from, view.from) : callBegin();
  const order = rowStep < 0 ? rows.slice(0, Math.max(at, 0)).reverse() : rows.slice(at + 1);
  for (const row of order) {
    const distance = (item) => Math.max(item.from - middle, middle - item.to, 0);
    const [nearest] = items(row).filter(visible).sort((one, other) => distance(one) - distance(other) || other.duration - one.duration);
    if (nearest) return select(nearest, true);
  }
}

// --- Events. ---

function change(number) {
  now = open(number);
  history.length = 0;
  root.querySelector('[data-do="back"]').disabled = true;
  const more = now.rows.length - now.involved;
  part("everyone").disabled = more === 0;
  part("everyone-text").textContent = more ? `${more} more thread${more > 1 ? "s" : ""}` : "all threads";
  part("kept").textContent = now.kept;
  layout();
  legend();
  const target = now.calls.find((call) => call.flags & TARGET);
  canvas.setAttribute("aria-label", `${now.label}, in ${task(now.task).text}; ${rows.length} rows`);
  showCall();
  search(part("find").value);
  select(target ?? null, false);
}

function legend() {
  const entries = [], held = new Set(now.holds.map((hold) => hold.lock));
  const entry = (ink, words, style) => {
    const key = document.createElement("i"), line = document.createElement("span");
    key.className = style;
    key.style.setProperty("--ink", `var(--${ink})`);
    line.append(key, words);
    entries.push(line);
  };
  for (const [lock, ink] of [...now.inks].slice(0, LOCK_INKS.length)) {
    entry(ink, `waiting for ${lockText(lock)}`, "hatched");
    if (held.has(lock)) entry(ink, `having ${data.locks[lock][0]}`, "thin");
  }
  for (const state of [0, 1, 2]) if (now.states.some((item) => item.state === state)) entry(STATE_INKS[state], STATES[state], "thin");
  if (now.boosts.length) entry("series-3", "priority changed", "thin");
  if (now.wakes.length) entry("series-4", "wake-up", "thin");
  part("legend").replaceChildren(...entries);
}

let pressed = null; // Where the pointer went down, until it comes up.

canvas.addEventListener("wheel", (event) => {
  const unit = event.deltaMode === 1 ? 20 : 1, length = view.to - view.from;
  if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) move((event.deltaX || event.deltaY) * unit / 1000);
  else {
    // All is shown already: the page may scroll on.
    if (event.deltaY > 0 && length >= now.length) return;
    zoom(Math.exp(event.deltaY * unit * 0.0016), time(Math.max(event.offsetX, gutter)));
  }
  event.preventDefault();
}, { passive: false });

canvas.addEventListener("pointerdown", (event) => {
  pressed = { left: event.offsetX, view, moved: false };
  canvas.setPointerCapture(event.pointerId);
});

canvas.addEventListener("pointermove", (event) => {
  if (!pressed) return hover(event);
  const far = event.offsetX - pressed.left;
  if (!pressed.moved && Math.abs(far) < 4) return;
  pressed.moved = true;
  canvas.classList.add("dragging");
  tip.hidden = true;
  const shift = -far / (width - gutter) * (pressed.view.to - pressed.view.from);
  lookAt(pressed.view.from + shift, pressed.view.to + shift);
});

function released(event) {
  if (pressed && !pressed.moved && event.type === "pointerup") {
    const item = under(event.offsetX, event.offsetY);
    if (item?.list === "waits") jump(item, time(event.offsetX));
    else select(item, false);
  }
  pressed = null;
  canvas.classList.remove("dragging");
}
canvas.addEventListener("pointerup", released);
canvas.addEventListener("pointercancel", released);
canvas.addEventListener("pointerleave", () => { tip.hidden = true; pointer = null; redraw(); });

function hover(event) {
  pointer = event.offsetX;
  redraw();
  const item = under(event.offsetX, event.offsetY);
  canvas.classList.toggle("over", Boolean(item));
  tip.hidden = !item;
  if (!item) return;
  show(tip, item, false);
  if (item.list === "waits") tip.lastChild.textContent = hadBy(item, time(event.offsetX));
  const left = Math.min(event.offsetX + 14, width - tip.offsetWidth - 8), below = event.offsetY + 18;
  const top = below + tip.offsetHeight > height ? event.offsetY - tip.offsetHeight - 12 : below;
  Object.assign(tip.style, { left: `${Math.max(left, 4)}px`, top: `${Math.max(top, 2)}px` });
}

const KEYS = {
  ArrowLeft: () => move(-0.15), ArrowRight: () => move(0.15), "+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1 / 0.6),
  Home: showCall, End: () => lookAt(0, now.length), ArrowUp: () => step(-1, 0), ArrowDown: () => step(1, 0),
  ",": () => step(0, -1), ".": () => step(0, 1), Backspace: back, Escape: () => select(null), "/": () => part("find").focus(),
  Enter: () => { if (selected?.list === "waits") jump(selected, selected.from); },
};

canvas.addEventListener("keydown", (event) => {
  const action = !event.ctrlKey && !event.metaKey && !event.altKey && KEYS[event.key];
  if (action) { action(); event.preventDefault(); }
});

const ACTIONS = { in: () => zoom(0.6), out: () => zoom(1 / 0.6), call: showCall, all: () => lookAt(0, now.length), back };
root.querySelectorAll("[data-do]").forEach((button) => button.addEventListener("click", ACTIONS[button.dataset.do]));
part("call").addEventListener("change", (event) => change(Number(event.target.value)));
part("find").addEventListener("input", (event) => search(event.target.value));
part("find").addEventListener("keydown", (event) => {
  if (event.key === "Enter") { nextMatch(event.shiftKey ? -1 : 1); event.preventDefault(); }
});
part("everyone").addEventListener("change", () => { layout(); search(part("find").value); });
part("wakes").addEventListener("change", redraw);
part("as-text").addEventListener("toggle", redraw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { styles = {}; patterns.clear(); redraw(); });

if (data.windows.length > 0) {
  part("card").hidden = false;
  data.windows.forEach((one, at) => part("call").add(new Option(`${at + 1}. ${one.label}, ${task(one.task).text}`, at)));
  new ResizeObserver(redraw).observe(part("view"));
  change(0);
}
