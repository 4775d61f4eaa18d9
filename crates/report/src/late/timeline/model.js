// What the timeline shows, and what it says about it. First of the three parts of the script of
// the page, which share one scope: this one, `draw.js` and `act.js`.

const root = document.currentScript.closest(".timeline");
const part = (name) => root.querySelector(`[data-part="${name}"]`);
const data = JSON.parse(part("data").textContent);

const [OPEN, FAILED, READ, TARGET] = [1, 2, 4, 8]; // Bits of `flags`.
const STATES = ["running", "preempted", "woken, waiting for a processor", "off the processor", "switching often"];
const STATE_INKS = ["good", "limit", "series-4", "grid", "muted"];
const LOCK_INKS = ["series-1", "series-3", "series-0", "series-4", "series-2"];

// --- Data: numbers become objects, one list after the other. ---

let now = null; // The window that is shown.

function open(number) {
  const source = data.windows[number];
  const shown = { ...source, number, items: [] };
  for (const [list, names] of Object.entries(data.lists)) {
    const fields = names.split(" "), numbers = source[list];
    shown[list] = [];
    for (let at = 0; at < numbers.length; at += fields.length) {
      const item = { list };
      fields.forEach((field, offset) => { item[field] = numbers[at + offset]; });
      item.to ??= item.from + (item.duration ?? 0);
      shown[list].push(item);
    }
  }
  const waited = new Map();
  for (const wait of shown.waits) waited.set(wait.lock, (waited.get(wait.lock) ?? 0) + wait.duration);
  const order = [...waited].sort((one, other) => other[1] - one[1]).map(([lock]) => lock);
  shown.inks = new Map(order.map((lock, at) => [lock, LOCK_INKS[at] ?? "series-5"]));
  return shown;
}

const task = (number) => {
  const [tid, name, process, priority, own] = data.tasks[number] ?? [0, "", "", null, 0];
  return { tid, name, process, priority, own, text: tid === 0 ? "idle" : `${name || "thread"} (${tid})` };
};
const lockText = (lock) => `${data.locks[lock][1]} ${data.locks[lock][0]}`;
const callBegin = () => now.call[0];

// --- Finding: who was in which call, and who had a lock. ---

/** The innermost call of a thread at a time. */
function callAt(number, at) {
  const around = now.calls.filter((call) => call.task === number && call.from <= at && call.to >= at);
  return around.reduce((inner, call) => !inner || call.depth > inner.depth ? call : inner, null);
}

/** Who had the lock of a wait at a time, or at the nearest time at which that is known. */
function holderOf(wait, at) {
  const holds = now.holds.filter((hold) => hold.lock === wait.lock && hold.task !== wait.task && hold.from <= wait.to && hold.to >= wait.from);
  const distance = (hold) => Math.max(hold.from - at, at - hold.to, 0);
  const near = holds.reduce((best, hold) => !best || distance(hold) < distance(best) ? hold : best, null);
  if (near) return { task: near.task, at: Math.min(Math.max(at, near.from), near.to), hold: near };
  const signal = now.arrows.find((arrow) => arrow.lock === wait.lock && arrow.taker === wait.task && arrow.from >= wait.from && arrow.from <= wait.to);
  if (signal) return { task: signal.giver, at: signal.from, signal: true };
  return wait.owner >= 0 && callAt(wait.owner, at) ? { task: wait.owner, at } : null;
}

// --- Words. ---

function short(ns) {
  const [size, sign] = [Math.abs(ns), ns < 0 ? "−" : ""];
  const [unit, name] = size < 1e3 ? [1, "ns"] : size < 1e6 ? [1e3, "us"] : size < 1e9 ? [1e6, "ms"] : [1e9, "s"];
  return `${sign}${Number((size / unit).toPrecision(4))} ${name}`;
}

/** What something is: its name, and lines about it. */
function describe(item) {
  const lasted = item.flags & OPEN ? `${short(item.duration)} or longer` : short(item.duration);
  const when = `${lasted}, from ${short(item.from - callBegin())}`;
  switch (item.list) {
    case "calls": return [data.texts[item.name], item.flags & TARGET ? `${lasted}, usually ${now.usual}, in ${task(item.task).text}` : `${when}, in ${task(item.task).text}`, data.texts[item.note]];
    case "waits": return [`Waits for ${lockText(item.lock)}${item.flags & READ ? " to read" : ""}`, `${when}, in ${task(item.task).text}${item.flags & FAILED ? ", in vain" : ""}`, hadBy(item, item.from)];
    case "holds": return [`Has ${lockText(item.lock)}${item.flags & READ ? " to read" : ""}`, `${when}, in ${task(item.task).text}`, waitedBy(item)];
    case "states": return [`${task(item.task).text}: ${STATES[item.state]}`, when, item.state === 0 ? `on CPU ${item.processor}` : item.state === 4 ? "" : `last on CPU ${item.processor}${behind(item)}`];
    case "runs": return [item.task < 0 ? "Several threads" : task(item.task).text, `${when}, on CPU ${item.processor}`, item.task < 0 || task(item.task).tid === 0 ? "" : `${task(item.task).process}${item.priority ? `, priority ${priority(item.priority)}` : ""}`];
    case "parts": return [data.texts[item.text], when, data.texts[item.text] === data.causes[item.cause][0] ? "" : data.causes[item.cause][0]];
    case "gpu": return [data.texts[item.name], when, now.gpuRows[item.row]];
    case "boosts": return [`Priority ${priority(item.old)} to ${priority(item.new)}`, `at ${short(item.from - callBegin())}, ${task(item.task).text}`, item.new < item.old ? "inherited from a thread that waits for its lock" : "given back"];
    default: return ["Records lost", when, `${item.count} records are missing`];
  }
}

const priority = (kernel) => kernel < 100 ? `real-time ${99 - kernel}` : `nice ${kernel - 120}`;

function hadBy(wait, at) {
  const holder = holderOf(wait, at);
  if (!holder) return wait.owner >= 0 ? `had by ${task(wait.owner).text}` : "holder not recorded";
  const call = callAt(holder.task, holder.at);
  return `${holder.signal ? "signalled by" : "had by"} ${task(holder.task).text}${call ? `, in ${data.texts[call.name]}` : ""}`;
}

function waitedBy(hold) {
  const waits = now.waits.filter((wait) => wait.lock === hold.lock && wait.task !== hold.task && wait.from < hold.to && wait.to > hold.from);
  const names = [...new Set(waits.map((wait) => task(wait.task).text))];
  return names.length ? `waited for by ${names.slice(0, 4).join(", ")}${names.length > 4 ? ` and ${names.length - 4} more` : ""}` : "";
}

/** Who was on the processor that a thread waited for, longest first. */
function behind(item) {
  if (item.state !== 1 && item.state !== 2) return "";
  const times = new Map();
  for (const run of now.runs) {
    const common = Math.min(run.to, item.to) - Math.max(run.from, item.from);
    if (run.processor === item.processor && run.task >= 0 && common > 0) times.set(run.task, (times.get(run.task) ?? 0) + common);
  }
  const [most] = [...times].sort((one, other) => other[1] - one[1]);
  return most ? `, where ${task(most[0]).text} ran` : "";
}
