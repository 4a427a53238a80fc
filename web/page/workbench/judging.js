/**
 * What a case file wants, and whether an answer is that. Two lists of calls are the same whatever the order of the calls
 * and of their keys, the case of letters, and whether a whole number is written 2 or 2.0. A call that the validation flags
 * counts as withheld. The shapes are those of `build.py ask --file`, and so is the rule for what has none of them: a case
 * that cannot be asked has failed, and says why; the others are asked.
 */

/**
 * @typedef {{name: string, arguments?: Record<string, unknown>}} Call
 * @typedef {{pass: boolean | null, wanted: Call[][]}} Judgement pass: null where nothing is wanted; wanted: any one of them
 * @typedef {object} Piece an entry with one case, to be asked at once
 * @property {string} name
 * @property {string} group
 * @property {Record<string, any>} entry
 * @property {string} [fault] why it cannot be asked; `entry` has it too, where its answer would have been
 */

/** @param {unknown} value @returns {value is Record<string, any>} */
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** A value as it is compared, with its keys in order. @param {unknown} value @returns {unknown} */
function plain(value) {
  if (typeof value === "string") return value.toUpperCase().toLowerCase(); // by way of capitals ß and ς are ss and σ
  if (Array.isArray(value)) return value.map(plain);
  if (!isObject(value)) return value;
  return Object.keys(value).sort().map((key) => [key, plain(value[key])]);
}

/** @param {Call[]} calls */
const comparable = (calls) =>
  JSON.stringify(calls.map(({ name, arguments: given }) => JSON.stringify([plain(name), plain(given ?? {})])).sort());

/** The calls that a response makes. @param {Record<string, any> | undefined} response @returns {Call[]} */
export function acted(response) {
  const { ungrounded, negation } = response?.validation ?? {};
  return ungrounded?.length || negation ? [] : (response?.function_calls ?? []);
}

/** One list of calls out of the forms that files use. @param {any} want @returns {Call[]} */
const listOf = (want) => (Array.isArray(want) ? want : (want?.function_calls ?? want?.calls ?? [want]));

/**
 * @param {Record<string, any>} turn an answered one
 * @param {Record<string, any>} wanting what has `want` or `expect`, and perhaps `alts`, more lists that are as right
 * @returns {Judgement}
 */
export function judge(turn, wanting) {
  const want = wanting.want ?? wanting.expect;
  const wanted = want === undefined || want === null ? [] : [want, ...(wanting.alts ?? [])].map(listOf);
  if (turn.error) return { pass: false, wanted };
  if (!wanted.length) return { pass: null, wanted };
  const got = comparable(acted(turn.response));
  return { pass: wanted.some((calls) => comparable(calls) === got), wanted };
}

/**
 * The turns of an answered piece, each with what holds what it wants: itself, and for the last one also its case or entry.
 * @param {Record<string, any>} answer
 * @returns {{turn: Record<string, any>, wanting: Record<string, any>}[]}
 */
export function turnsOf(answer) {
  const [one] = answer.cases ?? [answer];
  const turns = one.turns ?? [one];
  return turns.map((/** @type {any} */ turn, /** @type {number} */ place) => {
    const ownWant = (turn.want ?? turn.expect) !== undefined;
    return { turn, wanting: place === turns.length - 1 && !ownWant ? one : turn };
  });
}

/** What is wrong with a list of turns, or null. @param {unknown} turns */
function turnsFault(turns) {
  if (!Array.isArray(turns) || !turns.length) return "`turns` is a list of one turn or more.";
  const bad = turns.findIndex((turn) => !isObject(turn) || typeof turn.text !== "string");
  return bad < 0 ? null : `turn ${bad + 1} is not an object with a \`text\`.`;
}

/** What is wanted in a wrong way, or null. @param {Record<string, any>} holder */
function wantFault(holder) {
  const isCalls = (/** @type {any} */ want) => listOf(want).every((call) => isObject(call) && typeof call.name === "string");
  const want = holder.want ?? holder.expect;
  if (want !== undefined && want !== null && !isCalls(want)) return "`want` is a list of calls, each with a `name`.";
  if (holder.alts === undefined) return null;
  if (want === undefined) return "`alts` are alternatives to a `want`, and there is none.";
  return Array.isArray(holder.alts) && holder.alts.every(isCalls) ? null : "`alts` is a list of lists of calls.";
}

/** @param {Record<string, any>} holder an entry without cases, or a case */
function holderFault(holder) {
  const fault = "turns" in holder ? turnsFault(holder.turns) : typeof holder.text === "string" ? null : "a case is an object with a `text` or with `turns`.";
  if (fault) return fault;
  return [holder, ...(holder.turns ?? [])].map(wantFault).find((found) => found !== null) ?? null;
}

/** @param {string} fault */
const errorOf = (fault) => ({ code: "request_option", message: fault });

/** @param {unknown} entry @param {string} name @returns {Piece[]} */
function piecesOf(entry, name) {
  const group = isObject(entry) ? String(entry.category ?? entry.area ?? name) : name;
  if (!isObject(entry) || "turns" in entry === "cases" in entry) {
    const fault = "an entry is an object with either `turns` (one conversation) or `cases` (each from a fresh one).";
    return [faulty(name, group, fault, isObject(entry) ? entry : { entry })];
  }
  const { cases, ...shared } = entry;
  if (cases === undefined) {
    const fault = holderFault(entry);
    return [fault ? faulty(name, group, fault, entry) : { name, group, entry }];
  }
  if (!Array.isArray(cases) || !cases.length) return [faulty(name, group, "`cases` is a list of one case or more.", entry)];
  return cases.map((one, place) => {
    const known = isObject(one) ? one : { case: one };
    const called = String(known.id ?? `${name} ${place + 1}`);
    const kind = String(known.category ?? name);
    const fault = isObject(one) ? holderFault(one) : "a case is an object with a `text` or with `turns`.";
    if (!fault) return { name: called, group: kind, entry: { ...shared, cases: [one] } };
    return { name: called, group: kind, fault, entry: { ...shared, cases: [{ ...known, error: errorOf(fault) }] } };
  });
}

/** @param {string} name @param {string} group @param {string} fault @param {Record<string, any>} entry @returns {Piece} */
const faulty = (name, group, fault, entry) => ({ name, group, fault, entry: { ...entry, error: errorOf(fault) } });

/**
 * A file cut into pieces; null for what is no list of entries.
 * @param {unknown} entries
 * @returns {Piece[] | null}
 */
export function readCases(entries) {
  if (!Array.isArray(entries) || !entries.length) return null;
  return entries.flatMap((entry, index) => piecesOf(entry, String((isObject(entry) ? entry.id : null) ?? `entry ${index + 1}`)));
}
