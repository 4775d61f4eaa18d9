// Asks Perfetto's own trace processor about a trace.
//
//   node query.mjs FOLDER TRACE < QUERIES
//
// FOLDER holds `engine_bundle.js` and the `.wasm` files of a release of Perfetto's user interface.
// QUERIES is a JSON object of names and SQL texts; the answer is an object of the same names and
// their rows, each row an object of columns. Where the trace or a query is refused, the exit
// status is 1 and the reason stands on the standard error.
//
// The bundle is written for a web worker. It is run in a context that looks like one and gets a
// port, through which it takes requests and gives answers: streams of TraceProcessorRpc messages.
// The few fields of those that are used here are written and read by hand.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import vm from "node:vm";

// TraceProcessorRpc: fields, and values of `request`.
const [REQUEST, FATAL_ERROR, APPEND_DATA, QUERY_ARGS, APPEND_RESULT, QUERY_RESULT] = [2, 5, 101, 103, 201, 203];
const [APPEND, FINALIZE, QUERY] = [1, 2, 3];
const CHUNK_BYTES = 8 << 20;

const [folder, trace] = process.argv.slice(2);
if (!trace) fail("usage: node query.mjs FOLDER TRACE < QUERIES");
const ask = await start(folder);
const bytes = readFileSync(trace);
for (let at = 0; at < bytes.length; at += CHUNK_BYTES) {
  const answers = ask(APPEND, field(APPEND_DATA, bytes.subarray(at, at + CHUNK_BYTES)));
  for (const answer of answers) for (const [number, value] of fields(answer))
    if (number === APPEND_RESULT) for (const [inner, text] of fields(value)) if (inner === 2) fail(`${trace}: ${text}`);
}
ask(FINALIZE);
const queries = Object.entries(JSON.parse(readFileSync(0, "utf8")));
const results = queries.map(([name, sql]) => [name, query(name, sql)]);
process.stdout.write(JSON.stringify(Object.fromEntries(results), null, 1) + "\n");
process.exit(0);

/** Runs the bundle; gives a function that sends one request and returns the answers to it. */
async function start(folder) {
  let answers = [];
  class XMLHttpRequest {
    open(_method, name) { this.name = name; }
    send() { this.response = new Uint8Array(readFileSync(join(folder, this.name))).buffer; }
  }
  const quiet = { log() {}, warn() {}, error() {}, info() {}, debug() {} };
  const worker = { XMLHttpRequest, WorkerGlobalScope: class {}, location: { href: "file:///" }, console: quiet };
  Object.assign(worker, { self: worker, WebAssembly, Uint8Array, TypeError, TextDecoder, TextEncoder, URL, crypto, performance, setTimeout });
  vm.runInNewContext(readFileSync(join(folder, "engine_bundle.js"), "utf8"), worker, { displayErrors: false });
  const port = { postMessage: (reply) => answers.push(...[...fields(reply)].map(([, message]) => message)) };
  worker.onmessage({ data: port });
  await sleep(0); // The bundle prepares its buffer in a promise, which is settled by now.
  let sequence = 0;
  return (method, ...args) => {
    answers = [];
    const message = Buffer.concat([number(1, sequence++), number(REQUEST, method), ...args]);
    port.onmessage({ data: new Uint8Array(field(1, message)) });
    for (const answer of answers) for (const [at, value] of fields(answer)) if (at === FATAL_ERROR) fail(`${value}`);
    return answers;
  };
}

/** The rows of a query. */
function query(name, sql) {
  const columns = [], cells = [];
  for (const answer of ask(QUERY, field(QUERY_ARGS, field(1, Buffer.from(sql))))) {
    for (const [number, result] of fields(answer)) if (number === QUERY_RESULT) {
      for (const [inner, value] of fields(result)) {
        if (inner === 1) columns.push(`${value}`);
        if (inner === 2) fail(`query ${name}: ${value}`);
        if (inner === 3) cells.push(...batch(value));
      }
    }
  }
  const rows = [];
  while (cells.length > 0) rows.push(Object.fromEntries(cells.splice(0, columns.length).map((cell, at) => [columns[at], cell])));
  return rows;
}

/** The cells of a batch: their types, and a list of values for each type. */
function* batch(bytes) {
  const values = { 1: [], 2: [], 3: [], 4: [], 5: [] };
  for (const [number, value] of fields(bytes)) {
    if (number <= 2) values[number].push(...varints(value));
    if (number === 3) for (let at = 0; at < value.length; at += 8) values[3].push(value.readDoubleLE(at));
    if (number === 5) values[5].push(...`${value}`.split("\0"));
  }
  const next = [0, 0, 0, 0, 0, 0];
  // Types: 1 null, 2 integer, 3 float, 4 text. Larger integers than a float holds are not compared.
  for (const type of values[1].map(Number)) {
    if (type === 2) yield Number(BigInt.asIntN(64, values[2][next[2]++]));
    else if (type === 3) yield values[3][next[3]++];
    else if (type === 4) yield values[5][next[5]++];
    else yield null;
  }
}

// Protobuf, as much of it as is needed.

function varint(value) {
  const bytes = [];
  for (let rest = BigInt(value); ; rest >>= 7n) {
    if (rest < 128n) return Buffer.from([...bytes, Number(rest)]);
    bytes.push(Number(rest & 127n) | 128);
  }
}

function number(at, value) {
  return Buffer.concat([varint(at << 3), varint(value)]);
}

function field(at, bytes) {
  return Buffer.concat([varint((at << 3) | 2), varint(bytes.length), bytes]);
}

function read(bytes, at) {
  let value = 0n;
  for (let shift = 0n; ; shift += 7n, at++) {
    value |= BigInt(bytes[at] & 127) << shift;
    if (bytes[at] < 128) return [value, at + 1];
  }
}

function* varints(bytes) {
  for (let at = 0, value; at < bytes.length; ) {
    [value, at] = read(bytes, at);
    yield value;
  }
}

/** The fields of a message: number, and value or bytes. */
function* fields(message) {
  const bytes = Buffer.from(message.buffer, message.byteOffset, message.length);
  for (let at = 0, key, value; at < bytes.length; ) {
    [key, at] = read(bytes, at);
    [value, at] = (key & 7n) === 0n || (key & 7n) === 2n ? read(bytes, at) : [0n, at];
    const length = { 0: 0, 1: 8, 2: Number(value), 5: 4 }[key & 7n];
    yield [Number(key >> 3n), (key & 7n) === 0n ? value : bytes.subarray(at, at + length)];
    at += length;
  }
}

function fail(reason) {
  process.stderr.write(`${reason}\n`);
  process.exit(1);
}
